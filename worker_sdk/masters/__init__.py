"""How a worker or a pusher reaches a master: which of several, over one client for event loops and one for threads."""
