"""The master's own Valkey: a real server on a real file, for installations without a separate store."""

from jqmaster.embedded.directory import make_directory
from jqmaster.embedded.running import end_running, examine, url_of_running
from jqmaster.embedded.supervisor import EmbeddedStatus, EmbeddedValkey

__all__ = ["EmbeddedStatus", "EmbeddedValkey", "end_running", "examine", "make_directory", "url_of_running"]
