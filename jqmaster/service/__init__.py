"""The use cases: the domain decides, the store makes it so."""
