"""Switching nodes off and on for Slurm's power saving."""
