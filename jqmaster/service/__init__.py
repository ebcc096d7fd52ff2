"""The use cases. Each asks the domain for decisions, and the store to carry them out."""
