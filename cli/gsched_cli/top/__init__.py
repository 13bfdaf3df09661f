"""``gsched top``: the live view of the queue, on textual. Loaded by that command alone."""
