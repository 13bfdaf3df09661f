"""Scheduling policies: pure decisions from a snapshot. One file a policy."""
