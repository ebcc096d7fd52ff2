"""Processes of a master: serve, supervise several, one worker beside."""
