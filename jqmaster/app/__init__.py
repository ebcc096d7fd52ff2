"""The composition root. It builds a master, starts its parts in the order of their dependencies, and stops them
in reverse order."""

from jqmaster.app.process import Master
from jqmaster.app.serving import running_master, serve

__all__ = ["Master", "running_master", "serve"]
