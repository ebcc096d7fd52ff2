"""The master's own Valkey: a real server on a real file, for installations without a store of their own."""

from jqmaster.embedded.supervisor import EmbeddedStatus, EmbeddedValkey, examine, url_of_running

__all__ = ["EmbeddedStatus", "EmbeddedValkey", "examine", "url_of_running"]
