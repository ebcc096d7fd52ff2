"""The content of jobs as one caller may see it."""
