"""The master's own Valkey: a real server on a real file, for installations without a store of their own."""

from jqmaster.embedded.supervisor import EmbeddedStatus, EmbeddedValkey

__all__ = ["EmbeddedStatus", "EmbeddedValkey"]
