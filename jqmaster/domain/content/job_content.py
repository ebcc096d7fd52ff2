"""The content of one job as one caller sees it."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgpack

from jqmaster.domain.content.content import HIDDEN, ContentAccess
from jqmaster.domain.content.redact import REDACTED
from jqmaster.domain.jobs.error_type import error_type_of
from jqmaster.domain.jobs.job import Attempt, Job
from jqmaster.domain.jobs.reserved_names import RESERVED_PREFIX

# For these outcomes, a worker wrote the message. For all others, the master did.
_OF_WORKERS: Final = frozenset({"failure", "timeout", "discarded"})
# The minimum length of a value that is searched for in texts. A shorter value may occur in a text by chance.
_MIN_QUOTED: Final = 4
_UNDECODABLE: Final = object()


class JobContent:
    """The content of one job for one caller. Values are encoded MessagePack. None: the value is hidden.

    A redacted value of the job is also removed from its error texts, wherever they contain it verbatim.
    """

    def __init__(self, access: ContentAccess, job: Job) -> None:
        self._access = access.for_name(job.name)
        self._redactor = access.redactor
        self._job = job
        self._own_quoted: list[object] | None = None

    @property
    def is_shown(self) -> bool:
        """Return whether the caller sees content of this job at all."""
        return self._access.is_granted

    def argument(self) -> bytes | None:
        if not self.is_shown:
            return None
        if self._job.name.startswith(RESERVED_PREFIX):
            # Redact the whole argument of a delivery. It contains the result of another job and a URL with
            # credentials, and `redact_paths` covers neither.
            return _encoded(REDACTED)
        return self._redactor.encoded("argument", self._job.argument)

    def headers(self) -> dict[str, str]:
        return self._redactor.headers(self._job.headers) if self.is_shown else {}

    def unique_key(self) -> str | None:
        """Return the uniqueness key as it was pushed. None: name and argument are the key."""
        unique = self._job.unique
        if unique is None or unique.key is None:
            return None
        if not self.is_shown:
            return HIDDEN
        # Redact the key, too: applications build it from values of the job.
        return str(_without(unique.key, self._quoted()))

    def result(self, value: bytes) -> bytes | None:
        """Return the Result of the job. The Result of a success has the member `result`. The Result of a failure has
        `error` and `message`."""
        if not self.is_shown:
            return None
        shown = self._redactor.within("error", self._redactor.within("result", value))
        quoted = self._quoted(*(self._found_in_result(root, value) for root in ("result", "error")))
        cover = self._access.error_text_cover
        if not quoted and cover is None:
            return shown
        fields = _decoded(shown)
        if not isinstance(fields, dict):
            return None
        for part in ("error", "message"):
            if part in fields:
                fields[part] = _without(fields[part], quoted)
        if cover and "message" in fields:
            fields["message"] = cover
        return _encoded(fields)

    def part(self, value: bytes) -> bytes | None:
        """Return a partial result, redacted like a result."""
        if not self.is_shown:
            return None
        shown = self._redactor.encoded("result", value)
        quoted = self._quoted(self._found("result", value))
        return _encoded(_without(_decoded(shown), quoted)) if quoted else shown

    def log_line(self, text: str, *, is_error: bool) -> str | None:
        """Return a line of the job's log. If error texts are redacted, so are lines of level error."""
        if is_error and self.is_shown and (cover := self._access.error_text_cover):
            return cover
        return self.text(text)

    def error(self, attempt: Attempt) -> bytes | None:
        """Return the error value of an attempt."""
        if attempt.error is None or not self.is_shown:
            return None
        shown = self._redactor.encoded("error", attempt.error)
        quoted = self._quoted(self._found("error", attempt.error))
        return _encoded(_without(_decoded(shown), quoted)) if quoted else shown

    def message(self, attempt: Attempt) -> str | None:
        """Return the text of an attempt's error. The master's own texts are not content."""
        if attempt.message is None or attempt.outcome not in _OF_WORKERS:
            return attempt.message
        if not self.is_shown:
            return None
        if cover := self._access.error_text_cover:
            return cover
        found = () if attempt.error is None else self._found("error", attempt.error)
        return str(_without(attempt.message, self._quoted(found)))

    def value(self, value: bytes) -> bytes | None:
        """Return a value that the handler wrote for people, or None if the caller sees no content."""
        if not self.is_shown:
            return None
        quoted = self._quoted()
        return _encoded(_without(_decoded(value), quoted)) if quoted else value

    def text(self, text: str) -> str | None:
        """Return a text that the handler wrote, or None if the caller sees no content."""
        if not self.is_shown:
            return None
        return str(_without(text, self._quoted()))

    def group_text(self, text: str, end: Attempt | None) -> str:
        """Return the text of a failure group that has this job as its example; `end` is the job's last attempt."""
        error = end.error if end else None
        found = () if error is None else self._found("error", error)
        return self._access.error_text_cover or str(_without(text, self._quoted(found)))

    def _quoted(self, *more: Iterable[object]) -> tuple[str, ...]:
        """Return the redacted values of the job, and `more`, in each form that they may take within a text."""
        if self._own_quoted is None:
            headers = self._job.headers.items()
            self._own_quoted = [value for key, value in headers if self._redactor.meets("headers", (key,))]
            self._own_quoted += self._found("argument", self._job.argument)
        values = [*self._own_quoted, *(value for some in more for value in some)]
        return tuple(sorted(set(_forms(values)), key=len, reverse=True))

    def _found(self, root: str, value: bytes) -> list[object]:
        return self._redactor.found(root, _decoded(value)) if self._redactor.has(root) else []

    def _found_in_result(self, root: str, value: bytes) -> list[object]:
        if not self._redactor.has(root):
            return []
        fields = _decoded(value)
        return self._redactor.found(root, fields.get(root)) if isinstance(fields, dict) else []


class GoneContent:
    """The log of a deleted job of this name as one caller sees it. Its values were redacted when the job was
    deleted."""

    def __init__(self, access: ContentAccess, name: str) -> None:
        self._access = access.for_name(name)

    def log_line(self, text: str, *, is_error: bool) -> str | None:
        """Return a line of the log: see `JobContent.log_line`."""
        if not self._access.is_granted:
            return None
        return self._access.error_text_cover or text if is_error else text


def shown_error_type(access: ContentAccess, attempt: Attempt) -> str | None:
    """Return the type of an attempt's exception, which is not content. None: the type is uncertain or redacted."""
    return error_type_of(attempt.error, attempt.message) if access.shows_error_type else None


def _decoded(value: bytes) -> object:
    try:
        return msgpack.unpackb(value, strict_map_key=False, unicode_errors="surrogateescape", timestamp=0)
    except Exception:  # nothing is known about it, so nothing is shown
        return _UNDECODABLE


def _encoded(value: object) -> bytes | None:
    if value is _UNDECODABLE:
        return None
    return bytes(msgpack.packb(value, unicode_errors="surrogateescape"))


def _forms(values: Iterable[object]) -> Iterator[str]:
    for value in values:
        if isinstance(value, dict):
            yield from _forms([*value.keys(), *value.values()])
        elif isinstance(value, list):
            yield from _forms(value)
        elif isinstance(value, bytes | str | int | float) and not isinstance(value, bool):
            text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
            for form in (text, repr(text)[1:-1], json.dumps(text)[1:-1]):
                if len(form) >= _MIN_QUOTED:
                    yield form


def _without(value: Any, quoted: Sequence[str]) -> Any:
    """Return `value` with the texts in `quoted` redacted wherever they occur in it."""
    if isinstance(value, str):
        for text in quoted:
            value = value.replace(text, REDACTED)
        return value
    if isinstance(value, list):
        return [_without(item, quoted) for item in value]
    if isinstance(value, dict):
        return {key: _without(item, quoted) for key, item in value.items()}
    return value
