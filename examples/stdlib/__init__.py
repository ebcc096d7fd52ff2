"""The example that `make run` shows: the standard library of this Python, analysed one job per file."""
