"""Templates of job scripts."""
