"""Definitions: firing, editing, and the outcomes of instants."""
