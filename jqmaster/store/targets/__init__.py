"""HTTP targets in the store."""
