"""Synthetic traces: few numbers fitted to a trace, and traces drawn from them."""
