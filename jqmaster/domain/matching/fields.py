"""The fields of jobs and events that matchers and keys may read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

FIELDS: Final = ("name", "priority", "tags", "max_retry", "timeout", "keep_result", "headers", "argument")
# The fields of an event that matchers and keys of definitions may read.
EVENT_FIELDS: Final = ("event_type", "source", "subject", "payload")


class _Missing:
    pass


# The result of a path that does not exist. null is a value; this is not.
MISSING: Final = _Missing()
_UNREAD: Final = _Missing()


class JobFields:
    """The fields of a job that matchers and keys may read.

    `decode` makes values of the packed argument: None, bool, int, float, str, bytes, list and dict. It is called when
    a field of the argument is first read, and once; whatever it raises, the argument is then as if there were none.
    `queue`: see `Lane`; no matcher reads it.
    """

    __slots__ = (
        "_argument",
        "_decode",
        "_packed",
        "headers",
        "keep_result",
        "max_retry",
        "name",
        "priority",
        "queue",
        "tags",
        "timeout_s",
    )

    def __init__(
        self,
        *,
        name: str,
        priority: int,
        tags: Sequence[str],
        max_retry: int,
        timeout_s: float,
        keep_result: bool,
        headers: Mapping[str, str],
        argument: bytes,
        decode: Callable[[bytes], object],
        queue: str = "",
    ) -> None:
        self.name = name
        self.queue = queue or name
        self.priority = priority
        self.tags = tags
        self.max_retry = max_retry
        self.timeout_s = timeout_s
        self.keep_result = keep_result
        self.headers = headers
        self._packed = argument
        self._decode = decode
        self._argument: object = _UNREAD

    @property
    def argument(self) -> object:
        """Return the decoded argument; MISSING where it cannot be decoded."""
        value = self._argument
        if value is _UNREAD:
            try:
                value = self._decode(self._packed)
            except Exception:  # of whichever decoder; one odd argument must not refuse the push it is in
                value = MISSING
            self._argument = value
        return value


class EventFields(JobFields):
    """The fields of an event, in the place of those of a job. The payload is read as an argument is."""

    __slots__ = ("event_id", "event_type", "occurred_at", "source", "subject")

    def __init__(
        self,
        *,
        event_id: str,
        event_type: str,
        source: str,
        subject: str,
        occurred_at: str | None,
        payload: bytes,
        decode: Callable[[bytes], object],
    ) -> None:
        super().__init__(
            name="", priority=0, tags=(), max_retry=0, timeout_s=0.0, keep_result=False, headers={}, argument=payload,
            decode=decode,
        )  # fmt: skip
        self.event_id = event_id
        self.event_type = event_type
        self.source = source
        self.subject = subject
        self.occurred_at = occurred_at
