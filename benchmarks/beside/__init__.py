"""Compares two checkouts. `__main__` runs `systems.py` in each checkout, and measures the two in turns."""
