"""The OpenAPI documents, and files that are generated from them. A master imports this package only when a client
requests the document."""
