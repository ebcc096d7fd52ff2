"""The fields of jobs and events that matchers and keys may read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

FIELDS: Final = ("name", "priority", "tags", "max_retry", "timeout", "keep_result", "headers", "argument")
# Matchers, and keys of definitions, may read these fields of an event.
EVENT_FIELDS: Final = ("event_type", "source", "subject", "payload")


class _Missing:
    pass


# The result of reading a path that does not exist. It differs from null, which is a value.
MISSING: Final = _Missing()
_UNREAD: Final = _Missing()


class JobFields:
    """The fields of a job that matchers and keys may read.

    `decode` turns the packed argument into values: None, bool, int, float, str, bytes, list and dict. It is
    called once, when a field of the argument is first read. If it raises anything, the argument counts as
    missing. `queue`: see `Lane`; matchers do not read it.
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
            except Exception:  # a decoder may raise anything; one odd argument must not fail the whole push
                value = MISSING
            self._argument = value
        return value


class EventFields(JobFields):
    """The fields of an event. Matchers read these fields like the fields of a job, and the payload like an argument."""

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
