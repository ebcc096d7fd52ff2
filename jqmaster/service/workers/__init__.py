"""Use cases of workers and masters: registration, reports, long polls, commands."""
