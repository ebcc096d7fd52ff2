"""Network code that every layer shares: TLS contexts, store addresses, egress limits and file descriptors."""
