"""The connection to Redis or Valkey: pool, topology, scripts, wake-ups, pages."""
