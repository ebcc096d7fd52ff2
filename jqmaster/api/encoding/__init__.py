"""Request and response bodies: MessagePack, JSON and NDJSON, their limits, and the fast path of common bodies."""
