"""Days off: which they are, and where they come from."""
