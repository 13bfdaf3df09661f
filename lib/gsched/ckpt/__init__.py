"""Checkpoints without torch: their format on disk; writing, finding, verifying, pruning them."""
