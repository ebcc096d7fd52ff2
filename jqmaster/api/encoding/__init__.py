"""Bodies of requests and answers: MessagePack, JSON and NDJSON, their limits, and the fast path for common
bodies."""
