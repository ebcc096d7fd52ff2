"""Live settings, health, metrics, statistics, the timeline and restores."""
