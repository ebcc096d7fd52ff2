"""A job that is ready to be sent."""

from typing import Any


class Job(dict[str, Any]):
    """A job with an ID, ready to be sent. Pushers send it unchanged, and convert any other map to it."""

    __slots__ = ()
