"""The path from a write to the leader in the same process. The store has no other path to the dispatcher.

A write that makes claims possible asks the port for them (`claim_with`). `StoreClient.run_all` then sends them behind
the write in the same round trip, and `TravellingClaim` takes the replies back to the dispatcher. This saves a lone job
a round trip and an fsync.

A write without a claim wakes the leader afterwards: in this process through the port (`wake`), otherwise with a message
that its script publishes. docs/architecture.md has a drawing.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from jqmaster.store.link.scripts import ScriptCall
from jqmaster.store.link.wake import JobsReady, WakeMessage


@dataclass(frozen=True, slots=True)
class ReportedSlots:
    """Slots that the report of a worker frees.

    * `newest_fence`: the fence of the newest job that the worker got with an answer. 0: none yet. None: the worker
      takes no jobs with answers.
    * `has_answer`: the answer to this report may carry jobs.
    """

    worker_id: str
    count: int
    newest_fence: int | None = None
    has_answer: bool = True


# The change by which a write made more claims possible: jobs became ready, or slots of one or more workers became free.
Trigger = JobsReady | Sequence[ReportedSlots]


class NextJobs(Protocol):
    """Jobs that go with the answer to a report (see `PollReply`)."""

    @property
    def now_ms(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    @property
    def offers(self) -> Sequence[Any]: ...


@dataclass(frozen=True, slots=True)
class TravellingClaim:
    """Claims that follow a write in its round trip, and are otherwise independent of it.

    Before the write returns or raises, `on_replies` or `on_failure` is called.

    * `on_replies`: called with the reply to each call, or with the error that `run` would have raised for the call.
    * `on_failure`: called if the round trip failed, so that any call may have run.
    * `on_overtaken`: called after `on_replies` if the claims ran before the write, because a script of the write had to
      be loaded.
    * `given`: set by `on_replies`: by worker ID, the jobs that go with the answer to the worker's report.
    * `on_no_answer`: called if no answer to a report will carry jobs.
    """

    calls: Sequence[ScriptCall]
    on_replies: Callable[[Sequence[tuple[str, list[Any]] | Exception]], None]
    on_failure: Callable[[], None]
    given: Mapping[str, NextJobs] = field(default_factory=dict)
    on_no_answer: Callable[[], None] = lambda: None
    on_overtaken: Callable[[], None] = lambda: None


class LeaderPort(Protocol):
    """The interface of the leader for writers in its process. The answers change with the leadership."""

    @property
    def is_here(self) -> bool:
        """True if this process leads. If it does, scripts publish no messages for the leader."""
        ...

    @property
    def wake(self) -> Callable[[WakeMessage], None]:
        """Return a function that wakes the leader after a write. It does nothing if the leader is another process."""
        ...

    @property
    def claim_with(self) -> Callable[[Trigger, Collection[str]], TravellingClaim | None]:
        """Return a function that returns the claims that a write makes possible. The caller sends these claims with the
        write, and the leader then needs no message.

        The second argument has the names of the jobs that become ready; empty: unknown. The function returns None if
        the leader is another process, or if there is nothing to claim.
        """
        ...


class LeaderElsewhere:
    """The port of a process that never leads."""

    is_here = False

    def wake(self, message: WakeMessage) -> None:
        pass

    def claim_with(self, trigger: Trigger, names: Collection[str] = ()) -> TravellingClaim | None:
        return None


LEADER_ELSEWHERE: Final = LeaderElsewhere()
