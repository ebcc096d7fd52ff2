"""A comparison of two trees: `__main__` gives their systems turns in a process of each tree, which is `systems`."""
