"""Tasks: functions with typed parameters. Their calls can be enqueued as jobs."""
