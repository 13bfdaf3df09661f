"""Simulated clusters behind the same port as the live one."""
