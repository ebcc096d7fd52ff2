"""The clients that enqueue tasks: the clients of the process, or, inside a job, the clients of its worker."""

from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from worker_sdk.environment import Configuration, configuration, masters_or_default, token_or_default
from worker_sdk.worker.context import pushers_of, running_job

if TYPE_CHECKING:
    from worker_sdk.pusher.by_process import LazyPushers, Pushers


class ProcessPushers:
    """The clients that a process shares. Threads, event loops and forked processes may use them at the same time: each
    call has its own connection."""

    def __init__(self) -> None:
        self._made_for: Any = None
        self._pushers: LazyPushers | None = None

    def get(self) -> "LazyPushers":
        """Return the clients. Make new clients after a change of the configuration or of the environment."""
        masters, token = masters_or_default(None), token_or_default(None)
        key = (masters, token, configuration())
        # If two threads get here at once, one of their two `LazyPushers` is dropped before it has a connection.
        if self._pushers is None or self._made_for != key:
            from worker_sdk.pusher.by_process import configured_pushers

            self._pushers = configured_pushers(masters, token)
            self._made_for = key
        return self._pushers


class OwnPushers:
    """Clients of masters that were given in the code, not by `configure`."""

    def __init__(self, masters: str | Sequence[str], token: str | None) -> None:
        self._access = (masters, token)
        # The clients, with the configuration for which they were made. The key is True for callers inside a job.
        self._made: dict[bool, tuple[LazyPushers, Configuration]] = {}

    def now(self) -> "LazyPushers":
        """Return the clients for a call at this moment. Outside of jobs, the clients wait for masters as long as
        `configure` says. Inside a job, they wait as long as the clients of `ctx.enqueue`. Make new clients after a
        change of the configuration."""
        is_in_job, present = running_job.get() is not None, configuration()
        pushers, made_for = self._made.get(is_in_job, (None, None))
        if pushers is None or made_for != present:
            from worker_sdk.pusher.by_process import LazyPushers, configured_pushers

            pushers = LazyPushers(*self._access) if is_in_job else configured_pushers(*self._access)
            self._made[is_in_job] = pushers, present
        return pushers

    async def stop(self) -> None:
        made, self._made = self._made, {}
        for pushers, _ in made.values():
            await pushers.stop()


process_pushers: Final = ProcessPushers()
# Clients for tests: the last one in this list replaces all other clients.
substitutes: Final[list["Pushers"]] = []


# The clients that write to the outbox, set inside the block of an outbox transaction.
outbox_pushers: "Final[ContextVar[Pushers | None]]" = ContextVar("outbox_pushers", default=None)


def pushers_for(
    own: "LazyPushers | None", *, namespace: str | None = None, is_outbox_left_out: bool = False
) -> "Pushers":
    """Return the clients for a call at this moment.

    * `own`: the clients of the tasks' own master, if they have one.
    * `namespace`: the namespace that the call names.

    Raise ValueError for an invalid namespace."""
    if namespace is not None:
        return pushers_for(own, is_outbox_left_out=is_outbox_left_out).in_namespace(namespace)
    if not is_outbox_left_out and (writer := outbox_pushers.get()) is not None:
        if own is not None:
            raise TypeError("tasks that have their own master cannot be enqueued in an outbox")
        return writer
    if substitutes:
        return substitutes[-1]
    if own is not None:
        return own
    if (ctx := running_job.get()) is not None:
        return pushers_of(ctx)
    return process_pushers.get()
