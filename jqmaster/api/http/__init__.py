"""HTTP itself: the server, the endpoint wrapper, which checks each request and calls its handler, authentication,
problems, static files, event streams."""
