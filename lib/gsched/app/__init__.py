"""Use cases behind the commands."""
