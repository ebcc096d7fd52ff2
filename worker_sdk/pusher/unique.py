"""The options for unique and debounced jobs."""

from dataclasses import dataclass
from typing import Any, Final, Literal

Scope = Literal["until_start", "until_finished", "window"]
OnConflict = Literal["reject", "existing", "replace"]

_SCOPES: Final = ("until_start", "until_finished", "window")
_CONFLICTS: Final = ("reject", "existing", "replace")


@dataclass(frozen=True, slots=True)
class Unique:
    """A uniqueness key. Only one job with the same name holds the key at a time.

    * `key`: text of up to 200 bytes. Default: the argument of the job is the key.
    * `scope`: how long the job holds the key: `until_start`, `until_finished` or `window`.
    * `ttl_s`: length of the window in seconds, counted from the enqueue. Only with the scope `window`.
    * `on_conflict`: what happens if another job holds the key. `reject`: the call raises `Duplicate`. `existing`: the
      call returns the ID of the other job. `replace`: the call returns that ID, too, and the other job gets the new
      argument and options if it has not started.

    Raise ValueError for an unknown `scope` or `on_conflict`, and for a window without `ttl_s`. For example:

        handle = make_thumbnail.using(unique=Unique("photo-42", on_conflict="existing")).enqueue(42)
        print(handle.is_duplicate)
    """

    key: str | None = None
    scope: Scope = "until_finished"
    ttl_s: float | None = None
    on_conflict: OnConflict = "reject"

    def __post_init__(self) -> None:
        if self.scope not in _SCOPES:
            raise ValueError(f"scope must be one of {', '.join(_SCOPES)}")
        if self.on_conflict not in _CONFLICTS:
            raise ValueError(f"on_conflict must be one of {', '.join(_CONFLICTS)}")
        if (self.scope == "window") != (self.ttl_s is not None):
            raise ValueError("ttl_s is required with the scope window, and refused with other scopes")

    def to_wire(self) -> dict[str, Any]:
        """Return the map that is sent."""
        fields = {"key": self.key, "scope": self.scope, "on_conflict": self.on_conflict, "ttl_s": self.ttl_s}
        return {field: value for field, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Debounce:
    """Delay a job until no further jobs with its key are enqueued: each further job replaces the waiting one, and the
    wait begins again.

    * `wait_s`: seconds to wait after the last job.
    * `max_s`: longest delay in seconds, counted from the first job. Default: no limit.
    * `key`: text of up to 200 bytes. Jobs of one name with the same key replace one another. Default: the name and the
      argument.

    For example:

        make_thumbnail.using(debounce=Debounce(wait_s=5, max_s=60, key="album-7")).enqueue(42)
    """

    wait_s: float
    max_s: float | None = None
    key: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """Return the map that is sent."""
        fields = {"key": self.key, "wait_s": self.wait_s, "max_s": self.max_s}
        return {field: value for field, value in fields.items() if value is not None}


class EnqueuedId(str):
    """The ID that a call returns if it made no new job: the ID of the job that holds the key.

    * `is_duplicate`: the other job is unchanged.
    * `is_replaced`: the other job has the argument and the options of this call now.
    """

    __slots__ = ("is_duplicate", "is_replaced")

    is_duplicate: bool
    is_replaced: bool

    @classmethod
    def of(cls, job_id: str, *, is_duplicate: bool, is_replaced: bool) -> str:
        """Return the ID; a plain `str` if a new job was made."""
        if not (is_duplicate or is_replaced):
            return job_id
        made = cls(job_id)
        made.is_duplicate, made.is_replaced = is_duplicate, is_replaced
        return made


def is_duplicate(job_id: str) -> bool:
    """Return whether a call to enqueue made no new job, and left the job that holds the key unchanged.

    * `job_id`: the ID that the call returned.

    For example:

        job_id = pusher.enqueue("thumbnail.make", {"photo_id": 42}, unique=Unique(on_conflict="existing"))
        print(is_duplicate(job_id))
    """
    return isinstance(job_id, EnqueuedId) and job_id.is_duplicate


def is_replaced(job_id: str) -> bool:
    """Return whether a call to enqueue made no new job, and gave its argument and options to the waiting job that holds
    the key.

    * `job_id`: the ID that the call returned.

    For example:

        job_id = pusher.enqueue("thumbnail.make", {"photo_id": 42}, unique=Unique(on_conflict="replace"))
        print(is_replaced(job_id))
    """
    return isinstance(job_id, EnqueuedId) and job_id.is_replaced
