"""Jobs over HTTP: enqueue, read, cancel, retry, act on many, and why one waits."""
