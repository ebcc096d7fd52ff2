"""A long import that continues where it stopped, with a progress bar."""
