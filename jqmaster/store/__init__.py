"""The only package that knows Redis and Valkey: keys, Lua transitions, records."""
