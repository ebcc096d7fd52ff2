"""Days off, and the sources that they are read from."""
