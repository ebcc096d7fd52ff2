"""Workers over HTTP: their calls to register, send heartbeats, poll for jobs and report results; commands to them; and
the bodies that masters push.
"""
