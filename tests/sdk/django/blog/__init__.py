"""A small application of Django: posts, and tasks that work on them."""
