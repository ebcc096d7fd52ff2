"""HTTP client and server, TLS and signatures, without dependencies on the server."""
