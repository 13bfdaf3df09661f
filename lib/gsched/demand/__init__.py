"""How many nodes or GPUs will be wanted in the next hours, from how many were wanted before."""
