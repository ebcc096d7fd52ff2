"""A comparison of two checkouts. `__main__` runs `systems.py` in each of them, and measures the two alternately."""
