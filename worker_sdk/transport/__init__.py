"""HTTP client and server, TLS and signatures: light, with no dependency on the server."""
