"""Workers over HTTP: calls by workers, commands to workers, and the bodies that masters push."""
