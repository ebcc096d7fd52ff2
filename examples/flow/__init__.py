"""A flow: many jobs, one that joins their results, and one that runs whatever became of them."""
