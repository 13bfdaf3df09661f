"""The compiled loops of the simulator; all of gsched that uses numba."""
