"""When waiting jobs will start: the simulator run forward from the cluster as it is now."""
