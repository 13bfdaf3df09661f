"""What runs inside a training job; torch is imported here and nowhere else."""
