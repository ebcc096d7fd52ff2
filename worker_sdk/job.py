"""The form of a job that is ready to be sent."""

from typing import Any


class Job(dict[str, Any]):
    """A job in the form that is sent, with an ID. Pushers send one as it is, and make any other map into one."""

    __slots__ = ()
