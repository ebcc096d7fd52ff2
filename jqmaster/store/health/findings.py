"""The findings of the checks of the store."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from jqmaster.store.keys import Keys
from jqmaster.store.named_documents import ETAG_LENGTH

# Number of keys per round trip. It is small, because each key may return a page of members.
KEYS_PER_READ: Final = 50


@dataclass(frozen=True, slots=True)
class NamedJobs:
    """Jobs, and the key that names them: an order, claims or slots. Empty: no such key."""

    job_ids: Sequence[str]
    found_in: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    * `rule`: a stable word.
    * `key`: the key with the fault.
    * `detail`: the fault in words.
    """

    rule: str
    key: str
    detail: str


@dataclass(frozen=True, slots=True)
class HandedOver:
    """Faults at a gate. `job_ids`: jobs that the gate lists as handed over to another system although they hold no slot
    at the gate.
    """

    key: str
    gate: str
    is_listed: bool
    job_ids: Sequence[str]

    def findings(self) -> list[Finding]:
        found = [
            Finding("slot", self.key, f"job {job_id} is listed as handed over but holds no slot")
            for job_id in self.job_ids
        ]
        return found if self.is_listed else [*found, Finding("slot", self.key, "is not listed")]


class ChargeFault(NamedTuple):
    """A fault in a piece of the charges of a gate. `cursor`: where the piece begins."""

    gate: str
    cursor: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class EventFault:
    """A fault in the data of events or of deleted definitions. `kind` and `member`: the arguments of
    repair_events.lua."""

    kind: str
    member: str

    def finding(self, keys: Keys) -> Finding:
        key, detail = {
            "event": (keys.events, f"event {self.member} is incomplete"),
            "slot": (keys.event_slots, f"the open group of {self.member} is never due"),
            "group": (keys.event_groups, f"group {self.member} has no events"),
            "definition": (keys.event_definitions, f"definition {self.member} does not exist"),
            "memory": (keys.forgotten_runs, f"definition {self.member} does not exist"),
            "unlisted": (
                keys.event_definitions,
                f"definition {self.member[ETAG_LENGTH:]} is missing in the list of definitions that events start",
            ),
        }[self.kind]
        return Finding("definition" if self.kind == "memory" else "event", key, detail)
