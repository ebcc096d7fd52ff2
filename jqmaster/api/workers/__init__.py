"""Workers over HTTP: register, heartbeat, long poll, results; orders to them; and the bodies that masters push."""
