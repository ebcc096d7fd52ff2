"""Jobs over HTTP: enqueue, read, cancel and retry them, act on many, and explain why one waits."""
