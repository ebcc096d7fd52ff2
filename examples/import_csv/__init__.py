"""A long import that goes on where it stopped, with a progress bar."""
