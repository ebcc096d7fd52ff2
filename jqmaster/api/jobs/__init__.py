"""Jobs over HTTP: enqueue, read, cancel and retry jobs, act on many jobs, and explain why a job waits."""
