"""Live settings, metrics, statistics and facts about the store."""
