"""Use cases of workers and masters: register, report, poll for jobs, and take commands."""
