"""The events that start the job of a definition, one by one or combined."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from jqmaster.domain.definitions.refusal import DefinitionError
from jqmaster.domain.definitions.template import Template
from jqmaster.domain.matching.checks import MatcherError
from jqmaster.domain.matching.fields import EVENT_FIELDS, MISSING, EventFields
from jqmaster.domain.matching.glob import compile_glob
from jqmaster.domain.matching.matcher import Matcher
from jqmaster.domain.matching.packed import encoded
from jqmaster.domain.matching.paths import Path, parse_path

MAX_WAIT_S: Final = 24 * 3600
MIN_WAIT_S: Final = 0.1
MAX_COLLECTED: Final = 1000

_COLLECTED: Final = "collect"
_DEBOUNCED: Final = "debounce"
TYPE_PATTERN: Final = r"^[^\s\x00-\x1f\x7f]{1,200}$"
_TYPE: Final = re.compile(TYPE_PATTERN.replace("$", r"\Z"))


@dataclass(frozen=True, slots=True)
class Debounce:
    """One job for the last of many events. It starts when no event has come for `wait_ms`, and at the latest `max_ms`
    after the first event."""

    wait_ms: int
    max_ms: int | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        _check_ms(("debounce", "wait_s"), self.wait_ms)
        if self.max_ms is not None:
            _check_ms(("debounce", "max_s"), self.max_ms)
            if self.max_ms < self.wait_ms:
                raise DefinitionError(("debounce", "max_s"), "must not be less than wait_s")


@dataclass(frozen=True, slots=True)
class Collect:
    """One job for a list of events. It starts when `most` events have come, or `within_ms` after the first event."""

    most: int
    within_ms: int
    key: Path | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.most <= MAX_COLLECTED:
            raise DefinitionError(("collect", "max"), f"must be from 1 to {MAX_COLLECTED}")
        _check_ms(("collect", "within_s"), self.within_ms)


@dataclass(frozen=True, slots=True)
class EventTrigger:
    """The events of a definition of kind `event`. A faulty trigger raises DefinitionError.

    `event_type` may be a pattern, as in matchers. `argument` None: the job has the argument of the definition.
    """

    event_type: str
    matcher: Matcher | None = None
    argument: Template | None = None
    debounce: Debounce | None = None
    collect: Collect | None = None
    fits_type: Callable[[str], bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not _TYPE.match(self.event_type):
            raise DefinitionError(("event_type",), "must be 1 to 200 characters without blanks")
        try:
            fits_type = compile_glob(self.event_type)
        except ValueError as error:
            raise DefinitionError(("event_type",), str(error)) from None
        object.__setattr__(self, "fits_type", fits_type)
        if self.debounce and self.collect:
            raise DefinitionError(("collect",), "cannot be combined with debounce")

    @property
    def gathering(self) -> Debounce | Collect | None:
        return self.debounce or self.collect

    def slot(self, did: str, fields: EventFields) -> str:
        """Return the name of the group in which an event waits, for a definition that collects or debounces events.
        `did` names the incarnation of the definition."""
        key = self.gathering.key if self.gathering else None
        # Put the kind into the name. If an edit changes the kind, groups that are open then still end in the old way.
        slot = f"{did}:{_DEBOUNCED if self.debounce else _COLLECTED}"
        if key is None:
            return slot
        value = key.reader()(fields)
        packed = b"" if value is MISSING else encoded(value)
        return f"{slot}:{blake2b(packed, digest_size=16).hexdigest()}"


def is_collected(slot: str) -> bool:
    """Return whether the events of this group become a list."""
    return slot.split(":")[1] == _COLLECTED


def parse_debounce(document: Mapping[str, Any] | None) -> Debounce | None:
    """Return the `Debounce` of a checked document. Raise DefinitionError."""
    if document is None:
        return None
    most = document["max_s"]
    return Debounce(
        round(document["wait_s"] * 1000),
        None if most is None else round(most * 1000),
        _key(document["key"], "debounce"),
    )


def parse_collect(document: Mapping[str, Any] | None) -> Collect | None:
    """Return the `Collect` of a checked document. Raise DefinitionError."""
    if document is None:
        return None
    return Collect(document["max"], round(document["within_s"] * 1000), _key(document["key"], "collect"))


def _key(text: str | None, of: str) -> Path | None:
    if text is None:
        return None
    try:
        return parse_path(text, (of, "key"), EVENT_FIELDS)
    except MatcherError as error:
        raise DefinitionError(error.loc, error.msg) from None


def _check_ms(loc: tuple[str, str], ms: int) -> None:
    if not MIN_WAIT_S * 1000 <= ms <= MAX_WAIT_S * 1000:
        raise DefinitionError(loc, f"must be from {MIN_WAIT_S} to {MAX_WAIT_S}")
