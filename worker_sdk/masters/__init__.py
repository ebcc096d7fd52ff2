"""How a worker or a pusher reaches a master: the choice among several, and one client for event loops and one for
threads."""
