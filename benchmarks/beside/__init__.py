"""A comparison of two trees. `__main__` starts a process in each tree, which is `systems`, and gives their systems
turns."""
