"""The rules of the queue: pure functions and data. No await, no store, no HTTP, no clock."""
