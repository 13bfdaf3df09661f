"""Job scripts: their directives."""
