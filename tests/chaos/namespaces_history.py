"""The history of a run with several namespaces: one history for each, and what concerns all of them."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Self

from tests.chaos.history import Epoch, Fault, History, Silence

# The harness, among the processes that may wait for a core.
HARNESS: Final = "harness"
_FILE: Final = "installation.json"


@dataclass(frozen=True, slots=True)
class Place:
    """From `at_s` on, the data of the namespace lie in this store."""

    namespace: str
    store: str
    at_s: float


@dataclass(slots=True)
class InstallationHistory:
    """`faults` are those of all parts; the histories of the namespaces have none. `copies`: by namespace and job, the
    stores with live data that have it. `epochs`: by namespace and store. `masters`: names by the address that clients
    call. `starved`: times in which a master, or the harness itself, waited for a core. `control`: the store of the
    registry."""

    namespaces: dict[str, History] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    copies: dict[str, dict[str, Sequence[str]]] = field(default_factory=dict)
    epochs: dict[str, dict[str, list[Epoch]]] = field(default_factory=dict)
    silences: list[Silence] = field(default_factory=list)
    starved: list[Silence] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    masters: dict[str, str] = field(default_factory=dict)
    control: str = "store"
    seed: int = 0

    def stores_of(self, namespace: str, from_s: float, to_s: float) -> set[str]:
        """Return the stores in which the namespace lay at any moment of that time."""
        places = sorted((one for one in self.places if one.namespace == namespace), key=lambda one: one.at_s)
        found = set[str]()
        for place, after in zip(places, [*places[1:], None], strict=True):
            if place.at_s <= to_s and (after is None or after.at_s >= from_s):
                found.add(place.store)
        return found or {place.store for place in places[:1]}

    def save(self, directory: Path) -> None:
        for name, history in self.namespaces.items():
            history.save(directory / f"history-{name}.jsonl")
        own = asdict(self) | {"namespaces": list(self.namespaces)}
        (directory / _FILE).write_text(json.dumps(own))

    @classmethod
    def is_in(cls, directory: Path) -> bool:
        return (directory / _FILE).exists()

    @classmethod
    def load(cls, directory: Path) -> Self:
        own = json.loads((directory / _FILE).read_text())
        own["namespaces"] = {
            name: History.load(directory / f"history-{name}.jsonl") for name in own["namespaces"]
        }
        for name, kind in (("faults", Fault), ("places", Place), ("silences", Silence), ("starved", Silence)):
            own[name] = [kind(**one) for one in own[name]]
        own["epochs"] = {
            name: {store: [Epoch(**one) for one in epochs] for store, epochs in stores.items()}
            for name, stores in own["epochs"].items()
        }
        return cls(**own)
