"""The processes of `jqmaster serve`, and of `jqmaster take`."""
