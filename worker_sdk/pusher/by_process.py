"""The pushers behind `ctx.enqueue` and tasks. A pusher is made at its first use: most workers need no pusher, and the
modules are slow to import."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from worker_sdk.environment import configuration
from worker_sdk.loading import OF_ASYNC_CALLS, OF_SYNC_CALLS, load
from worker_sdk.masters.masters import Masters
from worker_sdk.masters.store_affinity import StoreAffinity

if TYPE_CHECKING:
    from worker_sdk.enqueueing import EnqueueChain, EnqueueMiddleware
    from worker_sdk.pusher.client import Pusher
    from worker_sdk.pusher.sync_client import SyncPusher

# How long a push inside a handler waits for a master. This is longer than in a web request, because an attempt should
# not fail only because a master restarts.
MAX_WAIT_IN_JOBS_S: Final = 60.0


class Pushers(Protocol):
    """The pushers of `ctx.enqueue`. Each is made at its first use."""

    def pusher(self) -> "Pusher": ...

    def sync_pusher(self) -> "SyncPusher": ...

    @property
    def namespace(self) -> str:
        """The namespace that their jobs go to."""
        ...

    def in_namespace(self, namespace: str) -> "Pushers":
        """Return the clients of another namespace at the same masters. Raise ValueError if the name is invalid."""
        ...


def namespace_at(masters: str | Sequence[str]) -> str:
    """Return the namespace that the addresses of masters name."""
    from worker_sdk.transport.namespaces import DEFAULT, namespace_of

    return namespace_of(masters if isinstance(masters, str) else masters[0]) or DEFAULT


class LazyPushers:
    """Makes each pusher at its first use.

    * `affinity`: the store that the jobs go to. None: the store of the first master that grants a call.
    * `middleware`: as for `Pusher`.
    """

    def __init__(
        self,
        masters: str | Sequence[str],
        token: str | None,
        affinity: StoreAffinity | None = None,
        *,
        timeout_s: float = 10.0,
        max_wait_s: float = MAX_WAIT_IN_JOBS_S,
        durability: str | None = None,
        middleware: "Iterable[EnqueueMiddleware] | None" = None,
    ) -> None:
        self._middleware = middleware
        self._masters = masters
        self._affinity = affinity
        self._token = token
        self._timeout_s = timeout_s
        self._max_wait_s = max_wait_s
        self._durability = durability
        self._pusher: Pusher | None = None
        self._sync_pusher: SyncPusher | None = None
        self._others: dict[str, LazyPushers] = {}

    def pusher(self) -> "Pusher":
        """Return the pusher for the event loop."""
        if self._pusher is None:
            load(OF_ASYNC_CALLS)
            from worker_sdk.pusher.client import Pusher

            masters = Masters(self._masters, affinity=self._affinity)
            self._pusher = Pusher(
                masters,
                token=self._token,
                timeout_s=self._timeout_s,
                max_wait_s=self._max_wait_s,
                durability=self._durability,
                middleware=self._middleware,
            )
        return self._pusher

    def sync_pusher(self) -> "SyncPusher":
        """Return the pusher for threads."""
        if self._sync_pusher is None:
            load(OF_SYNC_CALLS)
            from worker_sdk.pusher.sync_client import SyncPusher

            # If two threads get here at once, one of the two pushers is dropped before it has a connection. Do not use
            # a lock: another thread could hold it when a handler forks.
            masters = Masters(self._masters, affinity=self._affinity)
            self._sync_pusher = SyncPusher(
                masters,
                token=self._token,
                timeout_s=self._timeout_s,
                max_wait_s=self._max_wait_s,
                durability=self._durability,
                middleware=self._middleware,
            )
        return self._sync_pusher

    def chain(self) -> "EnqueueChain | None":
        """Return the middleware around each job that these clients enqueue."""
        from worker_sdk.enqueueing import chain_of
        from worker_sdk.environment import middleware_or_default

        return chain_of(middleware_or_default(self._middleware))

    @property
    def namespace(self) -> str:
        """The namespace that their jobs go to."""
        return namespace_at(self._masters)

    def in_namespace(self, namespace: str) -> "LazyPushers":
        """Return the clients of another namespace at the same masters. Raise ValueError if the name is invalid."""
        if (others := self._others.get(namespace)) is None:
            from worker_sdk.transport.namespaces import moved_to

            given = [self._masters] if isinstance(self._masters, str) else self._masters
            # Do not share the affinity: another namespace may be in another store.
            others = self._others[namespace] = LazyPushers(
                [moved_to(address, namespace) for address in given],
                self._token,
                timeout_s=self._timeout_s,
                max_wait_s=self._max_wait_s,
                durability=self._durability,
                middleware=self._middleware,
            )
        return others

    def without_middleware(self, max_wait_s: float) -> "LazyPushers":
        """Return clients of the same masters that have no middleware, and that repeat a call for up to `max_wait_s`."""
        return LazyPushers(
            self._masters,
            self._token,
            self._affinity,
            timeout_s=self._timeout_s,
            max_wait_s=max_wait_s,
            durability=self._durability,
            middleware=(),
        )

    def close(self) -> None:
        """Close the connections of the sync pushers."""
        if self._sync_pusher is not None:
            self._sync_pusher.close()
        for others in self._others.values():
            others.close()

    async def stop(self) -> None:
        if self._pusher is not None:
            await self._pusher.aclose()
        if self._sync_pusher is not None:
            self._sync_pusher.close()
        for others in self._others.values():
            await others.stop()


def configured_pushers(masters: str | Sequence[str], token: str | None) -> LazyPushers:
    """Return clients for code outside of jobs, with the settings of `configure`."""
    settings = configuration()
    return LazyPushers(
        masters,
        token,
        timeout_s=settings.timeout_s,
        max_wait_s=settings.max_wait_s,
        durability=settings.durability,
        middleware=settings.middleware,
    )
