"""Workers over HTTP: their calls, commands to them, and the bodies that masters push."""
