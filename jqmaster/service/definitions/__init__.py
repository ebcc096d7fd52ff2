"""Use cases of definitions: fire, change and read definitions."""
