"""The priority daemon: rounds on a live Slurm."""
