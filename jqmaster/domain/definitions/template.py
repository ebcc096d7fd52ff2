"""The argument that a definition makes from an event."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jqmaster.domain.definitions.refusal import DefinitionError
from jqmaster.domain.matching.checks import Loc, MatcherError
from jqmaster.domain.matching.fields import EVENT_FIELDS, MISSING, EventFields
from jqmaster.domain.matching.packed import encoded
from jqmaster.domain.matching.paths import Path, parse_path

MAX_DEPTH: Final = 16
MAX_NODES: Final = 1000
FIELDS: Final = (*EVENT_FIELDS, "event_id", "occurred_at")
FROM: Final = "from"
PAYLOAD: Final[Mapping[str, Any]] = {FROM: "payload"}

_Make = Callable[[EventFields], Any]


@dataclass(frozen=True, slots=True)
class Template:
    """A value in which each `{"from": PATH}` stands for a part of the event, or for null if the event has no such part.

    `references`: these paths, each with its position in the argument.
    """

    document: Any = field(compare=False)
    make: _Make = field(repr=False, compare=False)
    # Templates are compared by this text and not by their documents, in which Python treats 1 and True as equal.
    spelled: str = field(repr=False)
    references: Sequence[tuple[Loc, Path]] = field(default=(), repr=False, compare=False)

    def argument(self, fields: EventFields, payload: bytes) -> bytes:
        """Return the argument of the job as MessagePack. `payload`: the event's payload."""
        return payload if self.document == PAYLOAD else encoded(self.make(fields))


def parse_template(document: Any) -> Template:
    """Return the template of a document. Raise DefinitionError."""
    parser = _TemplateParser()
    make, _ = parser.node(document, ("argument",), 1)
    return Template(document, make, repr(document), parser.references)


class _TemplateParser:
    def __init__(self) -> None:
        self._nodes = 0
        self.references: list[tuple[Loc, Path]] = []

    def node(self, document: Any, loc: Loc, depth: int) -> tuple[_Make, bool]:
        """Return a function that creates the value of this node, and whether it reads the event."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise DefinitionError(loc, f"more than {MAX_NODES} values")
        if depth > MAX_DEPTH:
            raise DefinitionError(loc, f"nested deeper than {MAX_DEPTH}")
        if isinstance(document, dict):
            return self._reference(document, loc) if FROM in document else self._map(document, loc, depth)
        if isinstance(document, list | tuple):
            made = [self.node(member, (*loc, n), depth + 1) for n, member in enumerate(document)]
            if any(reads for _, reads in made):
                makes = [make for make, _ in made]
                return lambda fields: [make(fields) for make in makes], True
        return lambda _: document, False

    def _reference(self, document: Mapping[Any, Any], loc: Loc) -> tuple[_Make, bool]:
        if len(document) > 1:
            raise DefinitionError(loc, f"a map with {FROM} must have nothing else")
        try:
            path = parse_path(document[FROM], (*loc, FROM), FIELDS)
        except MatcherError as error:
            raise DefinitionError(error.loc, error.msg) from None
        self.references.append((loc[1:], path))
        read = path.reader()

        def make(fields: EventFields) -> Any:
            value = read(fields)
            return None if value is MISSING else value

        return make, True

    def _map(self, document: Mapping[Any, Any], loc: Loc, depth: int) -> tuple[_Make, bool]:
        made = {key: self.node(value, (*loc, str(key)[:64]), depth + 1) for key, value in document.items()}
        if not any(reads for _, reads in made.values()):
            return lambda _: document, False
        makes = [(key, make) for key, (make, _) in made.items()]
        return lambda fields: {key: make(fields) for key, make in makes}, True
