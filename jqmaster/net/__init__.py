"""Network rules that every layer shares: TLS contexts, store addresses, egress limits, file descriptors."""
