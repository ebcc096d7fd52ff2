"""A shard: one hash tag, its keys, its connection, and how its leader is woken."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from jqmaster.store.keys import Keys
from jqmaster.store.link.client import Along, StoreClient
from jqmaster.store.link.wake import WakeMessage


@dataclass(slots=True)
class Shard:
    """`now` is None in production: scripts read the store's own clock. Tests give store milliseconds.

    `wake_leader` is set while this process leads: then no message has to travel. Otherwise writers publish (see `wake`).

    `follow` is set together with `wake_leader`: before a write that will give the leader work it may send along what it
    would do then.

    `mark` is that of the data that were there at the start (see `generation`); with it nothing is enqueued into others.
    """

    client: StoreClient
    keys: Keys
    now: Callable[[], int] | None = None
    wake_leader: Callable[[WakeMessage], None] | None = None
    follow: Callable[[WakeMessage, Collection[str]], Along | None] | None = None
    mark: str = ""

    def __post_init__(self) -> None:
        self.client.bind(self.keys.tag)

    @property
    def now_arg(self) -> int | str:
        return "" if self.now is None else self.now()

    @property
    def wake_channel(self) -> str:
        return "" if self.wake_leader else self.keys.wake_channel

    def along(self, message: WakeMessage, names: Collection[str] = ()) -> Along | None:
        """What is to travel with a write of which `message` would tell afterwards; then it need not be told. `names`: of
        the jobs that become ready by it, where they are known."""
        return self.follow(message, names) if self.follow else None

    def wake(self, message: WakeMessage) -> None:
        """Wake the leader if it is in this process. To be called after a write that gave it work, with the message that
        the script would publish."""
        if self.wake_leader:
            self.wake_leader(message)
