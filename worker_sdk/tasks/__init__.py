"""Tasks: functions with typed parameters whose calls can be enqueued as jobs."""
