"""The interface of the kinds of limits, which `limit_kinds.py` lists."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

from jqmaster.domain.constraints.gate_check import GateCheck
from jqmaster.domain.matching.checks import Loc

V = TypeVar("V")


class ConstraintError(ValueError):
    """A constraint that is refused. `loc`: the path to the faulty part; `msg`: the rule that it breaks."""

    def __init__(self, loc: Loc, msg: str) -> None:
        super().__init__(f"{'.'.join(map(str, loc))}: {msg}" if loc else msg)
        self.loc = loc
        self.msg = msg


@dataclass(frozen=True, slots=True)
class Figure:
    """A part of a limit, for which the web form has an input. `path`: its place in the document.

    Units: a count is a whole number, seconds may have a fraction, and an instant is a time as text, without bounds.
    Figures of the units `number` and `text` are optional.
    """

    name: str
    path: tuple[str, ...]
    least: float = 0
    most: float = 0
    unit: Literal["count", "seconds", "instant", "number", "text"] = "count"


class LimitKind(ABC, Generic[V]):
    """One kind of limit. `name` is the field of `Constraint` and `GateLimits` that has its values."""

    # The name of the field with this limit, in documents and classes.
    name: ClassVar[str]
    # The field's value in a constraint without this limit.
    none: ClassVar[Any] = None
    # Whether a single value of the key may have its own limit.
    is_per_value: ClassVar[bool] = True
    # The counts of jobs that the store must keep at the gate. None: no counts.
    counts: ClassVar[Literal["slots", "starts"] | None] = None
    # The numbers that make up the limit. A limit without numbers can only be on or off.
    figures: ClassVar[tuple[Figure, ...]] = ()
    # False: the form of a constraint has special inputs for this kind.
    has_inputs: ClassVar[bool] = True
    # An error text: why this kind needs a key; empty if it does not.
    needs_key: ClassVar[str] = ""

    def check(self, value: V, loc: Loc) -> None:
        """Raise ConstraintError for a value out of bounds."""

    def parse(self, document: Any) -> V:
        """Return the value of a document. The types in it have been checked."""
        value: V = document
        return value

    def document(self, value: V) -> Any:
        """Return the value as clients write and read it."""
        return value

    def pack(self, value: V) -> Any:
        """Return the value as the store keeps it."""
        return value

    def unpack(self, stored: Any) -> V:
        """Return the value that `pack` encoded."""
        value: V = stored
        return value

    def stored(self, value: V) -> Mapping[str, Any]:
        """Return the fields of a stored constraint that hold the value."""
        return {self.name: self.pack(value)}

    def restored(self, document: Mapping[str, Any]) -> V:
        """Return the value from a stored constraint. An earlier release may have stored it."""
        none: V = self.none
        return self.unpack(document[self.name]) if self.name in document else none

    def at_gate(self, value: V) -> V:
        """Return the limit of a gate for this value of a constraint."""
        return value

    def merged(self, own: V, override: V) -> V:
        """Return the limit of a gate whose value of the key has an override."""
        return own if override is None else override

    @abstractmethod
    def script_fields(self, value: V) -> Mapping[str, float | None]:
        """Return the fields of this value for scripts. For None, a constraint omits the field, and an override
        stores an empty text."""

    @abstractmethod
    def brief(self, document: Any) -> str:
        """Return the limit in a few words, "" for none. `document`: what the method `document` returns."""


class Explained(ABC):
    """A kind that appears, with its state at a gate, in the answer of `why`."""

    name: ClassVar[str]

    @abstractmethod
    def shown(self, gate: GateCheck) -> Mapping[str, Any]:
        """Return the fields of the answer about this gate."""


class GateCloser(Explained):
    """A kind that can close a gate."""

    @abstractmethod
    def closes(self, gate: GateCheck) -> bool:
        """Return whether this kind closes the gate by itself."""

    @abstractmethod
    def why(self, gate: GateCheck, now_ms: int, silent_ms: Mapping[str, int]) -> str:
        """Return the sentence that explains why the gate is closed. `silent_ms`: how long dead workers have been
        silent."""

    def use(self, gate: GateCheck) -> tuple[int | None, int | None, float | None]:
        """Return the limit, the part of it that is in use, and its period in seconds. None stands for a value that does
        not apply."""
        return None, None, None
