"""What sleeping nodes have saved, and whom they delayed: the report of `gsched ces report`."""
