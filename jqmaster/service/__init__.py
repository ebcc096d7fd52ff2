"""The use cases. Each takes its decisions from the domain, and lets the store carry them out."""
