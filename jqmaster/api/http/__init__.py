"""HTTP itself.

* the server and the limits of its connections
* the endpoint wrapper, which checks each request and calls its handler
* authentication
* problems
* static files
* event streams
"""
