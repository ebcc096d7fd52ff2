"""The loops of a running master, one role per file."""
