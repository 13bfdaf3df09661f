"""gsched: scheduling of deep-learning clusters on Slurm."""

__version__ = "0.1.0"
