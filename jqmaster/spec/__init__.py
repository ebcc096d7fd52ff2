"""The OpenAPI documents, and files generated from them. A master imports this only when a client requests the
document."""
