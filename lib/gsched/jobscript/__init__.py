"""Job scripts: sbatch's command line, what it asks of gsched, scripts made from templates."""
