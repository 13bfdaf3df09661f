"""The only adapter to Slurm: commands out, records in."""
