"""The Valkey server that a master starts for itself when no store is named."""
