"""Readers of public traces and of gsched's own files: bytes in, attempts by column out."""
