"""Cluster energy saving behind the commands: the demand of each pool, foreseen in a child."""
