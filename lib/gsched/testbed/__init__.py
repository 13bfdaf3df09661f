"""A private real Slurm on one machine, with virtual GPU nodes."""
