"""Simulations behind the commands: inputs, assumptions, comparisons, pages."""
