"""Tools for agents over the API of a master, by the Model Context Protocol. Only `server.py` needs its SDK."""
