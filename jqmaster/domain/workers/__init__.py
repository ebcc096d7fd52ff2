"""Workers: what the master knows of them, and who gets the next jobs."""
