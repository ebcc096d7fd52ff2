"""The HTTP edge: routes, schemas, encodings, problems."""
