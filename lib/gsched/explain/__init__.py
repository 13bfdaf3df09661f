"""Reasons in words: why a job waits, can never start, or has its place. Pure."""
