"""A flow: many jobs, a job that joins their results, and a job that runs whatever their outcomes."""
