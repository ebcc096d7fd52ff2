"""The masters of a store, and the counts behind metrics and history."""
