"""Wake-up messages. A process that has written to the store tells masters with them that there is work.

A message on the wake channel is a word, followed by its fields: `freed:WORKER_ID:3`. Scripts publish most messages. Any
message may be lost, so each receiver also polls.
"""

from dataclasses import dataclass, fields
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class JobsReady:
    """Jobs became ready, or a gate opened for ready jobs."""


@dataclass(frozen=True, slots=True)
class QueueOpened:
    """A queue of jobs that require labels was empty, and now has jobs."""

    queue: str


@dataclass(frozen=True, slots=True)
class JobDelayed:
    """A job waits for a time that may be earlier than any time that the leader knows."""


@dataclass(frozen=True, slots=True)
class SlotsFreed:
    """Claims of a worker ended."""

    worker_id: str
    count: int


@dataclass(frozen=True, slots=True)
class LeftToOthers:
    """A worker may still run the handler of a job that is to run again. It leaves jobs of this name to other workers
    with free slots.
    """

    worker_id: str
    for_ms: int
    name: str


@dataclass(frozen=True, slots=True)
class WorkersChanged:
    """A worker registered, came back, or was drained or detached by an operator."""


@dataclass(frozen=True, slots=True)
class PollOpened:
    """A worker that pulls asks for jobs."""

    worker_id: str
    wait_ms: int


@dataclass(frozen=True, slots=True)
class MailArrived:
    """The master that holds the poll of this worker can read the answer to it."""

    worker_id: str


@dataclass(frozen=True, slots=True)
class ConstraintsChanged:
    """The constraints have a new edition."""


@dataclass(frozen=True, slots=True)
class DefinitionsChanged:
    """A definition was created, changed or removed, and may be due before any definition that the leader knows."""


@dataclass(frozen=True, slots=True)
class EventsWaiting:
    """Events wait to become one job. This job may be due before any other that the leader knows."""


@dataclass(frozen=True, slots=True)
class FollowUpsWritten:
    """A script wrote follow-ups: work for the leader that a change of a job causes."""


@dataclass(frozen=True, slots=True)
class GateClosed:
    """A gate was closed, and will open by itself at some time."""


@dataclass(frozen=True, slots=True)
class BulkActionsChanged:
    """An action on many jobs was requested or canceled."""


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """Settings changed that apply at run time."""


@dataclass(frozen=True, slots=True)
class IdentityChanged:
    """A user, token or session changed."""


@dataclass(frozen=True, slots=True)
class LeaderResigned:
    """The leader gave its lock back."""


@dataclass(frozen=True, slots=True)
class MasterDemoted:
    """This master lost the lead, because another master took it or an operator demoted this master."""

    master_id: str


WakeMessage = (
    JobsReady
    | QueueOpened
    | JobDelayed
    | SlotsFreed
    | LeftToOthers
    | WorkersChanged
    | PollOpened
    | MailArrived
    | ConstraintsChanged
    | DefinitionsChanged
    | EventsWaiting
    | FollowUpsWritten
    | GateClosed
    | BulkActionsChanged
    | SettingsChanged
    | IdentityChanged
    | LeaderResigned
    | MasterDemoted
)

# By first word of a message on the wake channel: its type. A test compares every PUBLISH of the scripts with this
# table.
WORDS: Final[dict[str, type[WakeMessage]]] = {
    "ready": JobsReady,
    "queue": QueueOpened,
    "due": JobDelayed,
    "freed": SlotsFreed,
    "left": LeftToOthers,
    "workers": WorkersChanged,
    "polls": PollOpened,
    "mail": MailArrived,
    "rules": ConstraintsChanged,
    "definitions": DefinitionsChanged,
    "events": EventsWaiting,
    "followups": FollowUpsWritten,
    "gates": GateClosed,
    "actions": BulkActionsChanged,
    "settings": SettingsChanged,
    "identity": IdentityChanged,
    "resigned": LeaderResigned,
    "demoted": MasterDemoted,
}
_WORD_OF: Final = {kind: word for word, kind in WORDS.items()}
_FIELDS: Final = {kind: fields(kind) for kind in _WORD_OF}


def encode(message: WakeMessage) -> str:
    """Return the text to publish."""
    kind = type(message)
    return ":".join([_WORD_OF[kind], *(str(getattr(message, field.name)) for field in _FIELDS[kind])])


def decode(text: str) -> WakeMessage | None:
    """Return the message, or None if this version does not know it, because masters of several versions may share a
    store."""
    kind = WORDS.get(text.partition(":")[0])
    if kind is None:
        return None
    # The last field may contain colons, for example in the labels of a queue or in the name of a job.
    texts = text.split(":", max(1, len(_FIELDS[kind])))[1:]
    if len(texts) != len(_FIELDS[kind]):
        return None
    try:
        values: list[Any] = [
            int(text) if field.type is int else text for field, text in zip(_FIELDS[kind], texts, strict=True)
        ]
    except ValueError:
        return None
    return kind(*values)
