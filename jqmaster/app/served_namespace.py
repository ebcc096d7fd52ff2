"""One namespace besides the default namespace, from the time at which this process learns of it."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final, Protocol

from jqmaster.api.http.namespace_paths import Application
from jqmaster.app.open_namespace import STAGES, OpenNamespace, Stage
from jqmaster.app.served_store import ServedStore
from jqmaster.app.shard_faults import ShardFaults
from jqmaster.app.store_opening import open_shard
from jqmaster.app.store_set import StoreSet
from jqmaster.clock import Clock, WakeFlag
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.errors import (
    JqmasterError,
    NamespaceUnavailableError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from jqmaster.lifecycle import running
from jqmaster.runtime.leadership.hand_over import LedNamespace
from jqmaster.service.operations.metrics import Metrics
from jqmaster.store.health import generation
from jqmaster.store.keys import Keys
from jqmaster.store.link.shard import Shard

logger = logging.getLogger(__name__)

# Waits before the namespace is opened again: after its store was away, and after a fault.
RETRY_AWAY_S: Final = 1.0
REOPEN_FAULTED_S: Final = 30.0


class Build(Protocol):
    """Builds the parts of a namespace on its shard."""

    def __call__(
        self, namespace: Namespace, store: ServedStore, link: Shard, faults: ShardFaults
    ) -> OpenNamespace: ...


class ServedNamespace:
    """Opens the namespace's shard as soon as the store answers. If the shard fails, the namespace is closed with
    the reason, and opened again later. Other namespaces and the process continue.

    If the mark of the data differs from the mark of the data that were served before, the namespace stays closed.
    An operator must then close and open it, or restart the master.

    * `may_begin`: returns whether data without a mark, such as an empty store, may be served. This is allowed if
      the registry confirms that the namespace belongs in this store.
    * `on_opened`: called when the namespace has been opened for the first time.
    """

    def __init__(
        self,
        namespace: Namespace,
        stores: StoreSet,
        build: Build,
        clock: Clock,
        *,
        may_begin: Callable[[], bool],
        on_opened: Callable[[], None] = lambda: None,
    ) -> None:
        self.namespace = namespace
        self._stores = stores
        self._build = build
        self._clock = clock
        self._may_begin = may_begin
        self._on_opened = on_opened
        self._mark: str | None = None
        self._open: OpenNamespace | None = None
        self._refusal: JqmasterError = NamespaceUnavailableError(
            f"namespace {namespace.name} is being opened", code="namespace_starting", retry_after_s=1.0
        )
        self._failed = WakeFlag()
        self._has_other_mark = False
        self._stages: dict[Stage, contextlib.AsyncExitStack] = {}
        self._closing: asyncio.Task[None] | None = None
        self.tried = WakeFlag()
        self._keeper: asyncio.Task[None] | None = None

    def start(self, *, after: "asyncio.Task[None] | None" = None) -> None:
        """Begin to serve. `after`: a task that must end first, such as the closing of the namespace's former parts."""
        self._keeper = asyncio.create_task(self._keep(after), name=f"namespace {self.namespace.name}")

    @property
    def app(self) -> Application:
        """Return the application for requests. Raises the error that says why the namespace is not served."""
        if self._open is None:
            raise self._refusal
        return self._open.app

    @property
    def is_open(self) -> bool:
        return self._open is not None

    @property
    def is_useful(self) -> bool:
        """Return whether the namespace is served, and its store answers."""
        return self._open is not None and not self._open.shard.services.health.is_away

    @property
    def led(self) -> LedNamespace | None:
        """See `ServedShard.led`."""
        return self._open.shard.led if self._open else None

    @property
    def metrics(self) -> Metrics | None:
        """Return the metrics of the namespace, or None if it is not open."""
        return self._open.metrics if self._open else None

    @property
    def fault(self) -> str | None:
        """Return the reason why the namespace is not served. Return None if it is served or is being opened."""
        if self._open is not None or not self.tried.is_set() or self._refusal.code == "namespace_moving":
            return None
        return (
            self._refusal.reason
            if isinstance(self._refusal, NamespaceUnavailableError)
            else self._refusal.detail
        )

    async def hold(self) -> None:
        """Open nothing more. Keep everything open that is open now."""
        if self._keeper:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)

    async def end(self, stage: Stage) -> None:
        """End this stage if it has been reached. The later stages must have ended before."""
        if self._closing:
            await self._closing
        if stack := self._stages.pop(stage, None):
            await stack.aclose()

    async def close(self) -> None:
        """Stop serving."""
        await self.hold()
        self._refuse(
            NamespaceUnavailableError(
                f"namespace {self.namespace.name} is being closed", code="namespace_closed", retry_after_s=1.0
            )
        )
        for stage in reversed(STAGES):
            await self.end(stage)

    async def _keep(self, after: "asyncio.Task[None] | None") -> None:
        if after:
            await asyncio.wait([after])
        while True:
            pause_s = REOPEN_FAULTED_S
            try:
                await self._serve()
            except (StoreUnavailableError, OutcomeUnknownError) as exc:
                if not isinstance(self._refusal, StoreUnavailableError):
                    logger.warning("namespace %s waits for its store: %s", self.namespace.name, exc.detail)
                self._refuse(StoreUnavailableError(exc.detail, retry_after_s=RETRY_AWAY_S))
                pause_s = RETRY_AWAY_S
            except JqmasterError as exc:
                self._fail(exc.detail)
            except Exception as exc:
                logger.exception("cannot open namespace %s", self.namespace.name)
                self._fail(f"{type(exc).__name__}: {exc}"[:200])
            self.tried.set()
            await asyncio.sleep(pause_s)

    async def _serve(self) -> None:
        """Open the shard, and return when it has failed and is closed."""
        self._failed.clear()
        store = await self._stores.get(self.namespace.store, self.namespace.tag)
        async with store.openings:
            built = await self._start(store)
        if not self._failed.is_set():
            self._open = built
            logger.info("namespace %s is served", self.namespace.name)
            self._on_opened()
            self._on_opened = lambda: None
        self.tried.set()
        await self._failed.wait()
        if self._has_other_mark:
            await self._look_for_move(store)
        # Close in a separate task that survives a cancellation, because the process may begin to stop during the
        # closing.
        self._closing = asyncio.create_task(self._close_stages())
        await asyncio.shield(self._closing)
        self._closing = None

    async def _start(self, store: ServedStore) -> OpenNamespace:
        link = await open_shard(
            store, self.namespace.tag, expected_mark=self._mark, may_begin=self._may_begin()
        )
        self._mark = link.mark
        faults = ShardFaults(self._clock, on_fail=self._fail, beneath=store.loops)
        built = self._build(self.namespace, store, link, faults)
        try:
            for stage in STAGES:
                stack = contextlib.AsyncExitStack()
                await stack.enter_async_context(running(built.components(stage), failures=faults.loops))
                self._stages[stage] = stack
        except BaseException:
            await self._close_stages()
            raise
        return built

    async def _close_stages(self) -> None:
        for stage in reversed(STAGES):
            if stack := self._stages.pop(stage, None):
                await stack.aclose()

    async def _look_for_move(self, store: ServedStore) -> None:
        """Log the reason why the mark of the data has changed. If the data are being moved, nobody needs to act:
        this master will soon read the new store from the registry."""
        try:
            is_moved = await generation.is_frozen(Shard(store.client, Keys(self.namespace.tag)))
        except JqmasterError:
            is_moved = False
        if is_moved:
            logger.info("namespace %s is being moved to another store", self.namespace.name)
            self._refuse(
                NamespaceUnavailableError(
                    f"namespace {self.namespace.name} is being moved to another store",
                    code="namespace_moving",
                    retry_after_s=1.0,
                )
            )
        else:
            logger.error("namespace %s is not served: %s", self.namespace.name, generation.CHANGED)

    def _fail(self, reason: str) -> None:
        # If the data have a different mark, do not log the fault yet: `_look_for_move` first checks whether the
        # data are being moved.
        self._has_other_mark = reason == generation.CHANGED and self._open is not None
        if not self._has_other_mark:
            logger.error("namespace %s is not served: %s", self.namespace.name, reason)
        self._refuse(
            NamespaceUnavailableError(
                f"namespace {self.namespace.name} has failed on this master",
                code="namespace_faulted",
                reason=reason,
                retry_after_s=5.0,
            )
        )
        self._failed.set()

    def _refuse(self, refusal: JqmasterError) -> None:
        self._open, self._refusal = None, refusal
