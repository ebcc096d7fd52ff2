"""The kinds of limits that a constraint can have. Each is an object with the same interface.

`KINDS` lists them for all code that handles constraints: checks, documents, the store, usage, command line and web UI.
`CLOSERS` lists everything that can close a gate: some of these kinds, holds, and observations of workers.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from jqmaster.domain.constraints.gate_check import GateCheck, Holder, Rate
from jqmaster.domain.constraints.limit_kind import ConstraintError, Explained, Figure, GateCloser, LimitKind
from jqmaster.domain.constraints.turns import (
    MAX_SHARE,
    MAX_SHARES,
    MIN_SHARE,
    ProportionalTurns,
    TurnShare,
)
from jqmaster.domain.constraints.weight import (
    MAX_UNITS,
    UNIT_PATTERN,
    Weight,
    exact_thousandths,
    units,
    units_text,
)
from jqmaster.domain.instant import iso_ms, span
from jqmaster.domain.matching.checks import Loc, MatcherError
from jqmaster.domain.matching.key_value import canonical
from jqmaster.domain.matching.matcher import Matcher, parse_matcher
from jqmaster.domain.matching.paths import Path, parse_path

MAX_CONCURRENCY: Final = 1_000_000
MAX_RATE: Final = 100_000
MAX_PERIOD_MS: Final = 31 * 86_400_000
MAX_BACKLOG: Final = 100_000_000
# Maximum number of reservations of a constraint. Each further reservation doubles the number of gates that a job
# without a reservation must pass.
MAX_RESERVATIONS: Final = 3
MAX_NAMED_HOLDERS: Final = 3
# A longer period is cut to this length. It stays finite in milliseconds, and the check then refuses it.
_ABSURD_S: Final = 1e12


class ConcurrencyLimit(LimitKind[int | None], GateCloser):
    name = "concurrency"
    counts = "slots"
    figures = (Figure("concurrency", ("concurrency",), 1, MAX_CONCURRENCY),)

    def check(self, value: int | None, loc: Loc) -> None:
        if value == 0:
            raise ConstraintError((*loc, self.name), "must be 1 or more; to let no job run, set paused")
        if value is not None and not 1 <= value <= MAX_UNITS:
            raise ConstraintError((*loc, self.name), _too_much(MAX_CONCURRENCY))

    def check_jobs(self, value: int | None, loc: Loc) -> None:
        """Raise ConstraintError for a limit that only a constraint with a weight may have."""
        if value is not None and value > MAX_CONCURRENCY:
            raise ConstraintError((*loc, self.name), _too_much(MAX_CONCURRENCY))

    def script_fields(self, value: int | None) -> Mapping[str, float | None]:
        return {"concurrency": value}

    def brief(self, document: Any) -> str:
        return "" if document is None else f"{document} at once"

    def shown(self, gate: GateCheck) -> Mapping[str, Any]:
        most = gate.figures.get("running_most")
        return {
            "concurrency": gate.figures.get("concurrency") if most is None else most // 1000,
            "running": gate.running,
        }

    def closes(self, gate: GateCheck) -> bool:
        if gate.is_weighted:
            return gate.lacks("running")
        most = gate.figures.get("concurrency")
        return most is not None and (gate.running or 0) >= most

    def why(self, gate: GateCheck, now_ms: int, silent_ms: Mapping[str, int]) -> str:
        shown = [_holder(holder, now_ms, silent_ms) for holder in gate.holders[:MAX_NAMED_HOLDERS]]
        more = (gate.running or 0) - len(shown)
        holders = f": {', '.join(shown)}{f', and {more} more' if more > 0 else ''}" if shown else ""
        if gate.is_weighted:
            shown_holders = f": {', '.join(shown)}" if shown else ""
            used = f"{_used(gate, 'running')} {gate.unit} taken by running jobs{shown_holders}"
            return f"{used}; {_need(gate, 'running')}."
        return f"{gate.running} of {gate.figures['concurrency']} slots taken{holders}."

    def use(self, gate: GateCheck) -> tuple[int | None, int | None, float | None]:
        if gate.is_weighted:
            return (*_whole_units(gate, "running"), None)
        return gate.figures.get("concurrency"), gate.running, None


class RateLimit(LimitKind[Rate | None], GateCloser):
    name = "rate"
    counts = "starts"
    figures = (
        Figure("limit", ("rate", "limit"), 1, MAX_RATE),
        Figure("period", ("rate", "period_s"), 0.001, MAX_PERIOD_MS / 1000, "seconds"),
    )

    def check(self, value: Rate | None, loc: Loc) -> None:
        if value is None:
            return
        if value.limit == 0:
            raise ConstraintError(
                (*loc, "rate", "limit"), "must be 1 or more; to let no job start, set paused"
            )
        if not 1 <= value.limit <= MAX_UNITS:
            raise ConstraintError((*loc, "rate", "limit"), _too_much(MAX_RATE))
        if not 1 <= value.period_ms <= MAX_PERIOD_MS:
            raise ConstraintError(
                (*loc, "rate", "period_s"), f"must be 0.001 to {MAX_PERIOD_MS // 1000} seconds"
            )

    def check_jobs(self, value: Rate | None, loc: Loc) -> None:
        """Raise ConstraintError for a limit that only a constraint with a weight may have."""
        if value is not None and value.limit > MAX_RATE:
            raise ConstraintError((*loc, "rate", "limit"), _too_much(MAX_RATE))

    def parse(self, document: Any) -> Rate | None:
        if document is None:
            return None
        period_s = max(-1.0, min(document["period_s"], _ABSURD_S))
        return Rate(document["limit"], round(period_s * 1000))

    def document(self, value: Rate | None) -> Any:
        return None if value is None else {"limit": value.limit, "period_s": value.period_ms / 1000}

    def pack(self, value: Rate | None) -> Any:
        return None if value is None else [value.limit, value.period_ms]

    def unpack(self, stored: Any) -> Rate | None:
        return None if stored is None else Rate(*stored)

    def script_fields(self, value: Rate | None) -> Mapping[str, float | None]:
        limit, period_ms = (value.limit, value.period_ms) if value else (None, None)
        return {"rate_limit": limit, "rate_period_ms": period_ms}

    def brief(self, document: Any) -> str:
        return "" if document is None else f"{document['limit']} in {document['period_s']:g} s"

    def shown(self, gate: GateCheck) -> Mapping[str, Any]:
        return {"rate": self.document(_rate(gate)), "starts": gate.figures.get("starts")}

    def closes(self, gate: GateCheck) -> bool:
        if gate.is_weighted:
            return gate.lacks("window")
        rate = _rate(gate)
        return rate is not None and gate.figures.get("starts", 0) >= rate.limit

    def why(self, gate: GateCheck, now_ms: int, silent_ms: Mapping[str, int]) -> str:
        if gate.is_weighted:
            period = _period_text(gate.figures["period_ms"])
            return f"{_used(gate, 'window')} {gate.unit} in {period}; {_need(gate, 'window', now_ms)}."
        rate = _rate(gate)
        assert rate
        opens = ""
        if gate.opens_at_ms is not None:
            opens = (
                f"; the next may start in {span(gate.opens_at_ms - now_ms)}, at {iso_ms(gate.opens_at_ms)}"
            )
        starts = gate.figures["starts"]
        used = f"{starts} of {rate.limit} starts in the last {span(rate.period_ms)} are used"
        return f"{used}{opens}."

    def use(self, gate: GateCheck) -> tuple[int | None, int | None, float | None]:
        if gate.is_weighted and "window_most" in gate.figures:
            return (*_whole_units(gate, "window"), gate.figures["period_ms"] / 1000)
        rate = _rate(gate)
        return (rate.limit, gate.figures.get("starts"), rate.period_ms / 1000) if rate else (None, None, None)


class Pause(LimitKind[bool | None], GateCloser):
    """A pause. True: no job starts. False: the constraint is prepared for a pause. None: the value was not given."""

    name = "paused"

    def document(self, value: bool | None) -> Any:
        return bool(value)

    def at_gate(self, value: bool | None) -> bool:
        return bool(value)

    def merged(self, own: bool | None, override: bool | None) -> bool:
        return bool(own or override)

    def script_fields(self, value: bool | None) -> Mapping[str, float | None]:
        return {"is_paused": int(bool(value))}

    def brief(self, document: Any) -> str:
        return "paused" if document else ""

    def shown(self, gate: GateCheck) -> Mapping[str, Any]:
        return {"paused": self.closes(gate)}

    def closes(self, gate: GateCheck) -> bool:
        return bool(gate.figures.get("is_paused"))

    def why(self, gate: GateCheck, now_ms: int, silent_ms: Mapping[str, int]) -> str:
        if gate.expires_at_ms is not None:
            return f"it is paused until it expires at {iso_ms(gate.expires_at_ms)}."
        return "it is paused until somebody resumes it."


class Backlog(LimitKind[int | None]):
    """The most jobs that may wait; further pushes are refused. It closes no gate."""

    name = "max_backlog"
    is_per_value = False
    figures = (Figure("max_backlog", ("max_backlog",), 0, MAX_BACKLOG),)

    def check(self, value: int | None, loc: Loc) -> None:
        if value is not None and not 0 <= value <= MAX_BACKLOG:
            raise ConstraintError((*loc, self.name), f"must be 0 to {MAX_BACKLOG}")

    def script_fields(self, value: int | None) -> Mapping[str, float | None]:
        return {"max_backlog": value}

    def brief(self, document: Any) -> str:
        return "" if document is None else f"{document} waiting"


class AwaitingCounts(LimitKind[bool]):
    """Decides whether jobs that await callbacks count against the concurrency limit. It closes no gate by itself."""

    name = "counts_awaiting"
    none = True
    is_per_value = False
    needs = "requires a concurrency; jobs that await callbacks then do not count against it"

    def script_fields(self, value: bool) -> Mapping[str, float | None]:
        return {"is_awaiting_free": int(not value)}

    def brief(self, document: Any) -> str:
        return "" if document in (None, True) else "awaiting jobs do not count"


@dataclass(frozen=True, slots=True)
class Reservation:
    """Slots of a concurrency limit that only the jobs of a matcher may use."""

    matcher: Matcher
    concurrency: int


class Reserve(LimitKind[tuple[Reservation, ...]]):
    """Keeps slots for some jobs, by means of the gates that `parts.py` describes. It closes no gate by itself."""

    name = "reserve"
    none = ()
    is_per_value = False
    has_inputs = False
    needs = "requires a concurrency, from which slots are reserved"

    def check(self, value: tuple[Reservation, ...], loc: Loc) -> None:
        if len(value) > MAX_RESERVATIONS:
            raise ConstraintError((*loc, self.name), f"more than {MAX_RESERVATIONS} reservations")
        for i, one in enumerate(value):
            if not 1 <= one.concurrency <= MAX_CONCURRENCY:
                raise ConstraintError((*loc, self.name, i, "concurrency"), f"must be 1 to {MAX_CONCURRENCY}")

    def parse(self, document: Any) -> tuple[Reservation, ...]:
        found = []
        for i, one in enumerate(document or ()):
            try:
                found.append(Reservation(parse_matcher(one["matcher"]), one["concurrency"]))
            except MatcherError as error:
                raise ConstraintError((self.name, i, "matcher", *error.loc), error.msg) from None
        return tuple(found)

    def document(self, value: tuple[Reservation, ...]) -> Any:
        return [{"matcher": one.matcher.document, "concurrency": one.concurrency} for one in value]

    def stored(self, value: tuple[Reservation, ...]) -> Mapping[str, Any]:
        return {self.name: self.document(value)} if value else {}

    def unpack(self, stored: Any) -> tuple[Reservation, ...]:
        return self.parse(stored)

    def script_fields(self, value: tuple[Reservation, ...]) -> Mapping[str, float | None]:
        return {}

    def brief(self, document: Any) -> str:
        return f"{sum(one['concurrency'] for one in document)} reserved" if document else ""


class Fairness(LimitKind[bool | ProportionalTurns], Explained):
    """The values of the key take turns within each priority, equally or in proportion to shares. It closes no gate."""

    name = "fair"
    none = False
    is_per_value = False
    needs_key = "requires a key, because the values of the key take turns"
    # Shares are stored apart from `fair`, so that a master of an earlier release ignores them and gives equal turns.
    # Documents call a share `weight`.
    _stored_shares = "fair_weights"

    def check(self, value: bool | ProportionalTurns, loc: Loc) -> None:
        if isinstance(value, bool):
            return
        if len(value.shares) > MAX_SHARES:
            raise ConstraintError((*loc, self.name, "weights"), f"more than {MAX_SHARES}")
        first: dict[bytes, int] = {}
        for i, one in enumerate(value.shares):
            at = (*loc, self.name, "weights", i)
            _check_share(one.share, (*at, "weight"))
            earlier = first.setdefault(canonical(one.value), i)
            if earlier != i:
                raise ConstraintError((*at, "value"), f"the same value as {self.name}.weights.{earlier}")
        _check_share(value.default, (*loc, self.name, "default"))

    def parse(self, document: Any) -> bool | ProportionalTurns:
        if isinstance(document, bool):
            return document
        shares = (TurnShare(one["value"], one["weight"]) for one in document["weights"])
        return ProportionalTurns(tuple(shares), document["default"])

    def document(self, value: bool | ProportionalTurns) -> Any:
        if isinstance(value, bool):
            return value
        shares = [{"value": one.value, "weight": one.share} for one in value.shares]
        return {"weights": shares, "default": value.default}

    def stored(self, value: bool | ProportionalTurns) -> Mapping[str, Any]:
        if isinstance(value, bool):
            return {self.name: value}
        shares = [[one.value, one.share] for one in value.shares]
        return {self.name: True, self._stored_shares: [value.default, shares]}

    def restored(self, document: Mapping[str, Any]) -> bool | ProportionalTurns:
        is_fair = bool(document.get(self.name, False))
        if not is_fair or self._stored_shares not in document:
            return is_fair
        default, shares = document[self._stored_shares]
        return ProportionalTurns(tuple(TurnShare(*one) for one in shares), default)

    def script_fields(self, value: bool | ProportionalTurns) -> Mapping[str, float | None]:
        if isinstance(value, bool):
            return {"is_fair": int(value), "turn_weight": None, "least_turn_weight": None}
        return {"is_fair": 1, "turn_weight": value.default, "least_turn_weight": value.least}

    def brief(self, document: Any) -> str:
        return "fair by share" if isinstance(document, Mapping) else "fair" if document else ""

    def shown(self, gate: GateCheck) -> Mapping[str, Any]:
        return {"fair": bool(gate.figures.get("is_fair"))}


def _check_share(share: float, loc: Loc) -> None:
    # This form of the comparison also refuses NaN.
    if not MIN_SHARE <= share <= MAX_SHARE:
        raise ConstraintError(loc, f"must be {MIN_SHARE} to {MAX_SHARE}")


class WeightRule(LimitKind[Weight | None], Explained):
    """How much of the limits a job takes, in units. It closes no gate by itself."""

    name = "weight"
    is_per_value = False
    needs = "requires a concurrency or a rate, which then counts units"
    figures = (
        Figure("weight_from", ("weight", "from"), unit="text"),
        Figure("weight_default", ("weight", "default"), 0, MAX_UNITS, "number"),
        Figure("unit", ("weight", "unit"), unit="text"),
    )

    def check(self, value: Weight | None, loc: Loc) -> None:
        if value is None:
            return
        if not re.fullmatch(UNIT_PATTERN, value.unit):
            raise ConstraintError(
                (*loc, self.name, "unit"), "must be 1 to 32 of A-Z a-z 0-9 _ . - and begin with a letter"
            )
        if value.path is not None and value.path.root in ("tags", "name", "headers"):
            raise ConstraintError(
                (*loc, self.name, "from"),
                f"{value.path.root} is not a number; name a path such as argument.size",
            )

    def parse(self, document: Any) -> Weight | None:
        if document is None:
            return None
        default = exact_thousandths(document["default"])
        if default is None:
            raise ConstraintError(
                (self.name, "default"), f"must be a number from 0 to {MAX_UNITS} with at most three decimals"
            )
        return Weight(_weight_path(document["from"], (self.name, "from")), default, document["unit"])

    def document(self, value: Weight | None) -> Any:
        if value is None:
            return None
        path = None if value.path is None else str(value.path)
        return {"from": path, "default": units(value.default), "unit": value.unit}

    def pack(self, value: Weight | None) -> Any:
        if value is None:
            return None
        return [None if value.path is None else str(value.path), value.default, value.unit]

    def stored(self, value: Weight | None) -> Mapping[str, Any]:
        # Store nothing without a weight, so that documents of such constraints stay as in earlier releases.
        return {} if value is None else {self.name: self.pack(value)}

    def unpack(self, stored: Any) -> Weight | None:
        if stored is None:
            return None
        path, default, unit, *_ = stored
        return Weight(_weight_path(path, ()), int(default), str(unit))

    def script_fields(self, value: Weight | None) -> Mapping[str, float | None]:
        return {"weight_default": None if value is None else value.default}

    def brief(self, document: Any) -> str:
        if document is None:
            return ""
        return f"by {document['from']}" if document["from"] else f"{document['default']:g} each"

    def shown(self, gate: GateCheck) -> Mapping[str, Any]:
        if not gate.is_weighted:
            return {"weight": None}
        figures = gate.figures
        return {
            "weight": {
                "unit": gate.unit,
                "job": units(gate.weight),
                "is_default": "is_weight_found" not in figures,
                "running": _units_or_none(gate, "running"),
                "in_window": _units_or_none(gate, "window"),
                "is_too_heavy": gate.is_too_heavy,
            }
        }


class Observation(GateCloser):
    """The room left at another system, as a worker reported it; valid until an instant. It is not part of a
    constraint."""

    name = "observed"

    def shown(self, gate: GateCheck) -> Mapping[str, Any]:
        left, until_ms = gate.figures.get("observed_left"), gate.figures.get("observed_until_ms")
        if left is None or until_ms is None:
            return {"observed": None}
        return {"observed": {"remaining": units(max(0, left)), "until": iso_ms(until_ms)}}

    def closes(self, gate: GateCheck) -> bool:
        left = gate.figures.get("observed_left")
        need = gate.need if gate.is_weighted else 1000
        return left is not None and left < need

    def why(self, gate: GateCheck, now_ms: int, silent_ms: Mapping[str, int]) -> str:
        left, until_ms = gate.figures["observed_left"], gate.figures["observed_until_ms"]
        unit = gate.unit or "starts"
        return (
            f"a worker reported that the other system admits {units_text(max(0, left))} more {unit} until "
            f"{iso_ms(until_ms)}, {span(until_ms - now_ms)} from now."
        )


class Hold(GateCloser):
    """A hold: a worker asked that no job start for a while. It is not part of a constraint."""

    name = "hold"

    def shown(self, gate: GateCheck) -> Mapping[str, Any]:
        until_ms = gate.figures.get("held_until_ms")
        return {"held_until": None if until_ms is None else iso_ms(until_ms)}

    def closes(self, gate: GateCheck) -> bool:
        return "held_until_ms" in gate.figures

    def why(self, gate: GateCheck, now_ms: int, silent_ms: Mapping[str, int]) -> str:
        until_ms = gate.figures["held_until_ms"]
        return f"a worker asked to hold it until {iso_ms(until_ms)}, {span(until_ms - now_ms)} from now."


CONCURRENCY: Final = ConcurrencyLimit()
RATE: Final = RateLimit()
PAUSE: Final = Pause()
BACKLOG: Final = Backlog()
AWAITING_COUNTS: Final = AwaitingCounts()
RESERVE: Final = Reserve()
FAIRNESS: Final = Fairness()
WEIGHT: Final = WeightRule()
HOLD: Final = Hold()
OBSERVATION: Final = Observation()
# The order in which documents and lists name the kinds.
KINDS: Final[tuple[LimitKind[Any], ...]] = (
    CONCURRENCY,
    RATE,
    PAUSE,
    BACKLOG,
    FAIRNESS,
    AWAITING_COUNTS,
    RESERVE,
    WEIGHT,
)
PER_VALUE: Final = tuple(kind for kind in KINDS if kind.is_per_value)
# The kinds that close gates, the one that lasts longest first.
CLOSERS: Final[tuple[GateCloser, ...]] = (PAUSE, HOLD, OBSERVATION, CONCURRENCY, RATE)
# The kinds that the answer of `why` explains, in its order.
EXPLAINED: Final[tuple[Explained, ...]] = (CONCURRENCY, RATE, PAUSE, HOLD, FAIRNESS, WEIGHT, OBSERVATION)


def closing(gate: GateCheck) -> tuple[GateCloser, ...]:
    """Return everything that closes the gate by itself, the longest-lasting first."""
    return tuple(closer for closer in CLOSERS if closer.closes(gate)) if gate.is_closed else ()


def brief(document: Mapping[str, Any]) -> str:
    """Return the limits of a document, or of one value, in a few words."""
    unit = (document.get(WEIGHT.name) or {}).get("unit", "")
    texts = []
    for kind in KINDS:
        text = kind.brief(document.get(kind.name))
        # "100 in 60 s" becomes "100 tokens in 60 s".
        texts.append(text.replace(" ", f" {unit} ", 1) if unit and kind in (CONCURRENCY, RATE) else text)
    return ", ".join(filter(None, texts))


def _rate(gate: GateCheck) -> Rate | None:
    if "window_most" in gate.figures:
        return Rate(gate.figures["window_most"] // 1000, gate.figures["period_ms"])
    limit = gate.figures.get("rate_limit")
    return None if limit is None else Rate(limit, gate.figures["period_ms"])


def _too_much(most_jobs: int) -> str:
    return f"must be 1 to {most_jobs}, or to {MAX_UNITS} in a constraint with a weight"


def _weight_path(text: object, loc: Loc) -> Path | None:
    try:
        return None if text is None else parse_path(text, loc)
    except MatcherError as error:
        raise ConstraintError(error.loc, error.msg) from None


def _used(gate: GateCheck, what: str) -> str:
    most = gate.figures[f"{what}_most"]
    return f"{units_text(most - gate.figures[f'{what}_left'])} of {units_text(most)}"


def _whole_units(gate: GateCheck, what: str) -> tuple[int | None, int | None]:
    """Return a limit and the part of it that is in use, in whole units. Integers are needed because `why` gave integers
    before weights existed."""
    most, left = gate.figures.get(f"{what}_most"), gate.figures.get(f"{what}_left")
    return (None, None) if most is None or left is None else (most // 1000, -((left - most) // 1000))


def _units_or_none(gate: GateCheck, what: str) -> int | float | None:
    most, left = gate.figures.get(f"{what}_most"), gate.figures.get(f"{what}_left")
    return None if most is None or left is None else units(most - left)


def _period_text(period_ms: int) -> str:
    return {1000: "this second", 60_000: "this minute", 3_600_000: "this hour", 86_400_000: "this day"}.get(
        period_ms, f"the last {span(period_ms)}"
    )


def _need(gate: GateCheck, what: str, now_ms: int | None = None) -> str:
    """Return when a gate with a weight opens for the job, and where the job's weight comes from."""
    weight = units_text(gate.weight)
    job = f"this job's {weight}"
    if gate.needed:
        job = f"the {units_text(gate.needed)} of a job before this one and {job}"
    if gate.weight_path and "is_weight_found" not in gate.figures:
        job += f" (the default, because it has no number at {gate.weight_path})"
    too_heavy = " (more than the whole limit, so the job waits until nothing is counted)"
    opens = f"opens for {job}{too_heavy if gate.weight > gate.figures[f'{what}_most'] else ''}"
    if now_ms is not None and gate.opens_at_ms is not None:
        return f"{opens} in {span(gate.opens_at_ms - now_ms)}, at {iso_ms(gate.opens_at_ms)}"
    return f"{opens} when enough of them have ended" if now_ms is None else opens


def _holder(holder: Holder, now_ms: int, silent_ms: Mapping[str, int]) -> str:
    # Mention a silent worker, so that nobody suspects a leaked slot: the slot is freed when the lease ends.
    silent_for_ms = silent_ms.get(holder.worker_id)
    silent = "" if silent_for_ms is None else f" (worker silent for {span(silent_for_ms)})"
    since = span(now_ms - holder.since_ms)
    return f"job {holder.job_id} on worker {holder.worker_id or '?'} for {since}{silent}"
