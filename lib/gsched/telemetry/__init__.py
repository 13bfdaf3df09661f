"""What training jobs tell of themselves, read and written without torch. It is hostile input."""
