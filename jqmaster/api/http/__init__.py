"""HTTP itself: the server, the endpoint that checks and calls a handler, authentication, problems, static files, event
streams."""
