"""The OpenAPI documents and what is generated from them. A master loads it only when it is asked for its document."""
