"""Code that surrounds handlers, calls that enqueue, and the life of a worker."""
