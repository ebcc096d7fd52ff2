"""A shard: one hash tag, its keys, its connection, and how its leader is woken."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from jqmaster.store.keys import Keys
from jqmaster.store.link.client import Along, StoreClient


def freed(worker_id: str, count: int) -> str:
    """The word for claims of this worker that ended."""
    return f"freed:{worker_id}:{count}"


@dataclass(slots=True)
class Shard:
    """`now` is None in production: scripts read the store's own clock. Tests give store milliseconds.

    `wake_leader` is set while this process leads: then no message has to travel. Otherwise writers publish. The
    words: `ready` (jobs became ready), `due` (a job waits for a time), `freed:WORKER_ID:COUNT` (claims ended), `workers`
    (one came), `polls:WORKER_ID:WAIT_MS` (one that pulls asks for jobs), `actions` (one on many jobs came, or shall end), `resigned` (the leader). `mail:WORKER_ID` is for
    the master at which that worker's poll hangs: there is something to be told.

    `follow` is set together with `wake_leader`: before a write that will give the leader work it may send along what it
    would do then.

    `mark` is that of the data that were there at the start (see `generation`); with it nothing is enqueued into others.
    """

    client: StoreClient
    keys: Keys
    now: Callable[[], int] | None = None
    wake_leader: Callable[[str], None] | None = None
    follow: Callable[[str, Collection[str]], Along | None] | None = None
    mark: str = ""

    def __post_init__(self) -> None:
        self.client.bind(self.keys.tag)

    @property
    def now_arg(self) -> int | str:
        return "" if self.now is None else self.now()

    @property
    def wake_channel(self) -> str:
        return "" if self.wake_leader else self.keys.wake_channel

    def along(self, message: str, names: Collection[str] = ()) -> Along | None:
        """What is to travel with a write of which `message` would tell afterwards; then it need not be told. `names`: of
        the jobs that become ready by it, where they are known."""
        return self.follow(message, names) if self.follow else None

    def woke(self, message: str) -> None:
        """To be called after a write that gave the leader work, with the word that the script would publish."""
        if self.wake_leader:
            self.wake_leader(message)
