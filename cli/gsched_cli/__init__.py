"""The command line of gsched: options in, one call into the library, text out."""
