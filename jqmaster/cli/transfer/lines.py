"""The lines of an export. Each line is a JSON object with a kind, the version of the kind's format, and an ID.

The `document` of a line is the request with which the API creates the object. It may get new fields, but its
meaning never changes. `facts` are data that no request has.

The first line describes the file. The last line counts the other lines, so that an import can detect an
incomplete file."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

from jqmaster.errors import JqmasterError

if TYPE_CHECKING:
    from pydantic import BaseModel

ModelT = TypeVar("ModelT", bound="BaseModel")

HEAD: Final = "export"
END: Final = "end"
# The kinds in their order in a file, each with the version of its format. Increase the version if readers of the
# previous version would misunderstand the lines. New fields alone do not require a new version, because no reader
# silently drops an unknown field.
FORMATS: Final[Mapping[str, int]] = {
    HEAD: 1, "setting": 1, "constraint": 1, "calendar": 1, "definition": 1, "notice": 1, "target": 1,
    "fireworq_queue": 1, "fireworq_routing": 1, "slot_rule": 1, "user": 1, "token": 1, "batch": 1, "job": 1, END: 1,
}  # fmt: skip
PLURALS: Final[Mapping[str, str]] = {kind: f"{kind}s" for kind in FORMATS} | {"batch": "batches"}
_MEMBERS: Final = frozenset({"kind", "format", "id", "document", "facts"})
# The maximum length of a line. A line contains one argument, which may be as large as the largest argument of a
# job.
MAX_LINE_BYTES: Final = 1 << 30
_UNKNOWN_RULE: Final = "this version knows no such field"
_MAX_NESTING: Final = 200
_MAX_NODES: Final = 10_000_000


class LineError(Exception):
    """A line that cannot be imported.
    * `is_unknown`: a later release may have written the line.
    * `kind`: the kind of the line, if this version does not know the kind.
    """

    def __init__(self, text: str, *, is_unknown: bool = False, kind: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.is_unknown = is_unknown
        self.kind = kind


@dataclass(slots=True)
class Unknown:
    """The parts of a file that this version does not know. If `are_skipped`, they are skipped and counted. If
    not, their lines are refused."""

    are_skipped: bool
    fields: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class ExportLine:
    """One line. `offset`: its position in the file, in bytes."""

    number: int
    offset: int
    kind: str
    id: str
    document: dict[str, Any]
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"line {self.number}, {self.kind} {self.id}"


def written(
    kind: str, own_id: str, document: Mapping[str, Any], facts: Mapping[str, Any] | None = None
) -> bytes:
    """Return the line of an object. Facts without a value are omitted."""
    from jqmaster.api.encoding.answers import encode
    from jqmaster.api.encoding.negotiation import Encoding

    line: dict[str, Any] = {"kind": kind, "format": FORMATS[kind], "id": own_id, "document": dict(document)}
    if kept := {name: value for name, value in (facts or {}).items() if value is not None}:
        line["facts"] = kept
    return encode(line, Encoding.JSON) + b"\n"


def raw_lines(stream: IO[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Yield the number, the offset and the bytes of each line that is not blank."""
    number = offset = 0
    while raw := stream.readline(MAX_LINE_BYTES):
        number += 1
        if raw.strip():
            yield number, offset, raw
        offset += len(raw)


def parsed(number: int, offset: int, raw: bytes, unknown: Unknown) -> ExportLine:
    """Parse a line, and return it. Raise LineError if it is not valid, or if this version does not know its kind or
    format."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise LineError(f"line {number}: not JSON ({error})") from None
    if not isinstance(found, dict) or not isinstance(kind := found.get("kind"), str):
        raise LineError(f"line {number}: not a line of an export, which is an object with a kind")
    own_id, version = found.get("id", ""), found.get("format")
    if not isinstance(own_id, str) or not isinstance(version, int):
        raise LineError(f"line {number}: `id` must be a text, and `format` a whole number")
    place = f"line {number}, {kind} {own_id}"
    if kind not in FORMATS:
        raise LineError(f"{place}: this version knows no such kind", is_unknown=True, kind=kind)
    if version > FORMATS[kind]:
        raise LineError(
            f"{place}: format {version} is newer than this version, which reads up to {FORMATS[kind]}",
            is_unknown=True,
            kind=kind,
        )
    if others := found.keys() - _MEMBERS:
        if not unknown.are_skipped:
            raise LineError(f"{place}: unknown members {', '.join(sorted(others))}", is_unknown=True)
        unknown.fields.update(f"{kind}.{name}" for name in others)
    document, facts = found.get("document", {}), found.get("facts", {})
    if not isinstance(document, dict) or not isinstance(facts, dict):
        raise LineError(f"{place}: `document` and `facts` must be objects")
    return ExportLine(number, offset, kind, own_id, document, facts)


def checked(
    model: type[ModelT],
    line: ExportLine,
    document: Mapping[str, Any],
    unknown: Unknown,
    *,
    raw_fields: frozenset[str] = frozenset(),
    given: Mapping[str, Any] | None = None,
) -> ModelT:
    """Return a document as a checked request.

    * `raw_fields`: fields to return as MessagePack.
    * `given`: values that replace fields.

    Raise a LineError that names the field, the rule and the line."""
    from pydantic import ValidationError

    from jqmaster.api.encoding.envelopes import read_map
    from jqmaster.api.encoding.json_bridge import json_to_msgpack
    from jqmaster.api.encoding.validator import ScanLimits

    try:
        packed = json_to_msgpack(json.dumps(document).encode())
        limits = ScanLimits(max_nesting=_MAX_NESTING, max_nodes=_MAX_NODES)
        fields = read_map(packed, raw_fields, limits=limits) | dict(given or {})
        while True:
            try:
                return model.model_validate(fields)
            except ValidationError as error:
                from jqmaster.api.http.problems import invalid_from

                extra = [
                    e["loc"] for e in error.errors(include_input=False) if e["type"] == "extra_forbidden"
                ]
                if not extra or not unknown.are_skipped:
                    raise _line_error(line, invalid_from(error), is_unknown=bool(extra)) from None
                for loc in extra:
                    _remove(fields, loc)
                    unknown.fields[
                        f"{line.kind}.{'.'.join(str(part) for part in loc if isinstance(part, str))}"
                    ] += 1
    except JqmasterError as error:
        raise _line_error(line, error) from None


def _line_error(line: ExportLine, error: JqmasterError, *, is_unknown: bool = False) -> LineError:
    from jqmaster.api.http.rules import UNKNOWN_FIELD
    from jqmaster.cli.console.http import rule_line

    rules = [
        rule_line(rule.loc, _UNKNOWN_RULE if rule.msg == UNKNOWN_FIELD else rule.msg) for rule in error.errors
    ] or [f"  {error.detail}"]
    return LineError("\n".join([line.place, *rules]), is_unknown=is_unknown)


def _remove(fields: Any, loc: tuple[int | str, ...]) -> None:
    for part in loc[:-1]:
        fields = fields[part]
    del fields[loc[-1]]
