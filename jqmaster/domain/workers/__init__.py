"""Workers: what the master knows about them, and which of them get the next jobs."""
