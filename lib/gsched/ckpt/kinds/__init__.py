"""The formats of checkpoints that are told apart, one module each; `registry` lists them."""
