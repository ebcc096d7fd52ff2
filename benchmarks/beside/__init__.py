"""A comparison of two trees. `__main__` starts the process `systems` in each tree, and gives their systems turns."""
