"""Workers over HTTP: register, heartbeat, long poll, results; commands to them; and the bodies that masters push."""
