"""Events, their effects, and groups of events that become one job."""
