"""The example that `make run` shows: it analyses the standard library of this Python, with one job per file."""
