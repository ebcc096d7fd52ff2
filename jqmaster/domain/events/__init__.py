"""Events that applications send, and their effects on definitions."""
