"""Workers: facts about them, and the choice of workers for the next jobs."""
