"""Carries out the move of one namespace to another store, step by step.

The data are never served in two stores at the same time. Masters serve them only in the store that the registry names,
and only if that store has the mark of the data.

At the source, the mark is removed before anything is copied. It is restored if the move fails. At the target, the mark
is set after the copy has been compared with the source, just before the registry names the target.

A mover that takes over from another mover freezes the data again under its own, higher number. From then on, both
stores refuse writes under the former mover's number.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from jqmaster.clock import Clock
from jqmaster.domain.namespaces.move import LeftCopy, Move, MoveProgress, MoveStep
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.domain.operations.master import Pace
from jqmaster.errors import ConflictError, JqmasterError, OutcomeUnknownError, StoreUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.service.namespaces.living import living
from jqmaster.service.namespaces.places import Places, faults_of
from jqmaster.store.backup import loading
from jqmaster.store.health import fsck
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.namespaces.copying import differences, moved_keys, records
from jqmaster.store.namespaces.frozen import FrozenData
from jqmaster.store.namespaces.moves import LostMoveError, MoveEnd, MoveStore
from jqmaster.store.namespaces.namespaces import NamespaceStore

logger = logging.getLogger(__name__)

# Interval at which the mover records its progress. Each record also renews its hold of the move.
RECORD_S: Final = 1.0
POLL_S: Final = 0.2
# Maximum time for all live masters to stop serving the namespace. If one takes longer, the move fails.
RELEASE_WITHIN_S: Final = 20.0
# A master counts as gone only if its last heartbeat is older than this, however short the heartbeat interval is. A
# master that was only busy may still serve the namespace, and its changes would make the move fail.
MIN_SILENCE_MS: Final = 5_000
# If this many movers have tried the move, the next mover gives up and opens the namespace at the source again.
MAX_MOVERS: Final = 4
RETRY_S: Final = 1.0

_T = TypeVar("_T")


class _StoppedError(Exception):
    """The move must end without success. The text of the error is the reason."""

    def __init__(self, reason: str, end: MoveStep = "failed") -> None:
        super().__init__(reason)
        self.reason = reason
        self.end: MoveStep = end


@dataclass(frozen=True, slots=True)
class MoveTools:
    """Stores and services that every mover uses. `heartbeat_s`: the interval of workers' heartbeats. A heartbeat renews
    leases."""

    moves: MoveStore
    namespaces: NamespaceStore
    masters: MasterStore
    places: Places
    clock: Clock
    pace: LiveValue[Pace]
    heartbeat_s: LiveValue[float]


class Mover:
    """Carries out one move at this master. `number`: the number of this mover, higher than those of the movers before
    it."""

    def __init__(self, tools: MoveTools, move: Move, number: int) -> None:
        self._tools = tools
        self._name, self._terms, self._id = move.name, move.terms, move.id
        self._number = number
        self._step: MoveStep = move.step
        self._progress = MoveProgress(reason=move.progress.reason)
        self._aborted_by = move.aborted_by
        self._is_lost = False

    async def run(self) -> None:
        """Continue the move until it ends, or until another master takes it over. If this call is cancelled, another
        master may take the move over at once."""
        keeper = asyncio.create_task(self._keep_hold())
        try:
            await self._work()
        except LostMoveError:
            logger.warning("another master has taken over the move of namespace %s", self._name)
        except asyncio.CancelledError:
            # best effort: without this record, the hold expires by itself.
            with contextlib.suppress(JqmasterError, LostMoveError):
                await asyncio.shield(self._record(hold_ms=0))
            raise
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)

    async def _work(self) -> None:
        if self._step == "returning":
            await self._return(
                _StoppedError(self._progress.reason, "aborted" if self._aborted_by else "failed")
            )
            return
        try:
            if self._number > MAX_MOVERS:
                raise _StoppedError(f"{MAX_MOVERS} masters have tried the move, and none finished it")
            await self._move()
        except LostMoveError:
            await self._check_hold()
            # This mover still has its hold, so no other mover has frozen the data. The store must have lost the key
            # that says which move has frozen them. A store that evicts keys may lose it.
            await self._return(_StoppedError("a store has lost data that the move put there"))
        except asyncio.CancelledError:
            raise
        except _StoppedError as stopped:
            await self._return(stopped)
        except JqmasterError as exc:
            await self._return(_StoppedError(exc.detail))
        except Exception as exc:
            logger.exception("the move of namespace %s has failed", self._name)
            await self._return(_StoppedError(f"{type(exc).__name__}: {exc}"[:200]))

    async def _move(self) -> None:
        if self._step == "announced":
            await self._announce()
        namespace = await self._stop_service()
        await self._until_released(namespace)
        source = await self._data_in(namespace, self._terms.source)
        target = await self._data_in(namespace, self._terms.target)
        mark = await source.freeze()
        if mark is None:
            raise _StoppedError(f"store {self._terms.source} has no data of the namespace any more")
        if await loading.is_under_way(source.shard):
            raise _StoppedError(loading.unfinished("move the namespace").detail)
        await self._begin("copying")
        await target.reserve()
        await self._copy(source, target)
        await self._begin("checking")
        await self._compare(source, target)
        await self._until_released(namespace)
        await self._check_target()
        self._look()
        await target.unfreeze(mark)
        await self._finish()

    async def _announce(self) -> None:
        """Wait until the leases of running jobs outlast the stop of the service. Masters apply the announced lease
        within a second. After that, each worker has to send two heartbeats."""
        if self._terms.state == "open":
            await self._wait(2 * self._tools.heartbeat_s.current + 1.0)

    async def _stop_service(self) -> Namespace:
        """Make all masters stop serving the namespace. Return its entry in the registry."""
        self._step = "closing"
        while True:
            self._look()
            present = await self._entry()
            if present.state == "moving":
                return present
            stopped = replace(present, state="moving")
            if version := await self._tools.moves.stop_service(present, stopped, self._number):
                return replace(stopped, version=version)

    async def _until_released(self, namespace: Namespace) -> None:
        """Wait until no live master serves the namespace. This concerns the masters that are registered in the store of
        the registry or in the source store."""
        source = MasterStore(await self._tools.places.shard_of(replace(namespace, store=self._terms.source)))
        began_s = self._tools.clock.monotonic_s()
        while True:
            self._look()
            pace = self._tools.pace.current
            alive = {
                one.id: one
                for masters in (self._tools.masters, source)
                for one in await living(masters, pace, least_ms=MIN_SILENCE_MS)
            }
            move = await self._tools.moves.get(self._name)
            released = dict(move.released) if move else {}
            late = [one for one in alive.values() if released.get(one.id, 0) < namespace.version]
            if not late:
                return
            if self._tools.clock.monotonic_s() - began_s > RELEASE_WITHIN_S:
                names = ", ".join(sorted(one.url or one.id for one in late))
                raise _StoppedError(f"these masters did not stop serving the namespace: {names}")
            await self._tools.clock.sleep(POLL_S)

    async def _copy(self, source: FrozenData, target: FrozenData) -> None:
        async for page in moved_keys(source.shard):
            async for count in target.fill(records(source.shard, page)):
                self._look()
                self._progress = replace(self._progress, copied=self._progress.copied + count)

    async def _compare(self, source: FrozenData, target: FrozenData) -> None:
        def count(keys: int) -> None:
            self._look()
            self._progress = replace(self._progress, compared=self._progress.compared + keys)

        async for difference in differences(source.shard, target.shard, on_page=count):
            raise _StoppedError(f"the copy differs: {difference}")
        async for finding in fsck.check(
            target.shard.client, target.shard.keys, on_keys=lambda _: self._look()
        ):
            raise _StoppedError(
                f"the data are inconsistent ({finding.key}: {finding.detail}); run `jqmaster fsck` and "
                "`jqmaster repair` for the namespace first"
            )

    async def _check_target(self) -> None:
        """Check the target store again. Its configuration may have changed since the move began, for example so that it
        evicts keys."""
        if faults := await faults_of(self._tools.places, self._terms.target):
            raise _StoppedError(f"store {self._terms.target} cannot take jobs: {faults}")

    async def _finish(self) -> None:
        """End the move with success: make the registry name the target store."""
        left = LeftCopy(self._terms.source, (await self._entry()).tag, self._id, self._number)
        opened = {"store": self._terms.target, "state": self._terms.state, "stop_ms": 0}
        word = await self._surely(lambda: self._end(opened, "done", left))
        if word == "aborted":
            raise _StoppedError("it was aborted", "aborted")
        logger.info("namespace %s has been moved to store %s", self._name, self._terms.target)

    async def _return(self, stopped: _StoppedError) -> None:
        """Open the namespace again at the source, as soon as the source store answers."""
        self._step, self._progress = "returning", replace(self._progress, reason=stopped.reason[:500])
        logger.warning(
            "the move of namespace %s to store %s ends: %s", self._name, self._terms.target, stopped.reason
        )
        await self._surely(self._record)
        entry = await self._surely(self._entry)

        async def give_back() -> None:
            await (await self._data_in(entry, self._terms.source)).give_back()

        await self._surely(give_back)
        left = await self._removed(entry)
        opened = {"store": self._terms.source, "state": self._terms.state, "stop_ms": 0}
        await self._surely(lambda: self._end(opened, stopped.end, left))

    async def _removed(self, namespace: Namespace) -> LeftCopy | None:
        """Remove the copy at the target. Return the rest that could not be removed, or None if the whole copy was
        removed."""
        try:
            copy = await self._data_in(namespace, self._terms.target)
            await copy.reserve()
            await copy.remove()
        except ConflictError:
            return None  # the data at the target belong to others, and this move put none there
        except LostMoveError:
            await self._check_hold()
            return LeftCopy(self._terms.target, namespace.tag, self._id, self._number)
        except Exception:
            # Continue after any fault of the target: the namespace must not stay closed only because a copy cannot be
            # removed.
            logger.warning(
                "a part of the copy of namespace %s stays in store %s",
                self._name,
                self._terms.target,
                exc_info=True,
            )
            return LeftCopy(self._terms.target, namespace.tag, self._id, self._number)
        return None

    async def _end(self, opened: dict[str, object], step: MoveStep, left: LeftCopy | None) -> str:
        """End the move. Return the reply word of the script. After the word `changed`, which means that the namespace
        was changed meanwhile, try again."""
        while True:
            present = await self._entry()
            new = replace(present, **opened)  # type: ignore[arg-type]
            entry = encode_entry(
                who=self._terms.who,
                action=f"namespace.{_ACTIONS[step]}",
                target=self._name,
                before={"store": self._terms.source},
                after={
                    "store": new.store,
                    **({"reason": reason} if (reason := self._progress.reason) else {}),
                },
            )
            kept = {} if step == "done" else {"left_for_ms": 0}
            end = MoveEnd(step, self._progress, entry)
            word = await self._tools.moves.end(present, new, self._number, end, left=left, **kept)
            if word != "changed":
                return word

    async def _entry(self) -> Namespace:
        found = await self._tools.namespaces.get(self._name)
        if found is None:
            raise ConflictError(f"namespace {self._name} is no longer in the registry")
        return found

    async def _data_in(self, namespace: Namespace, store: str) -> FrozenData:
        shard = await self._tools.places.shard_of(replace(namespace, store=store))
        return FrozenData(shard, self._id, self._number)

    async def _begin(self, step: MoveStep) -> None:
        self._step = step
        await self._record()
        self._look()

    async def _record(self, *, hold_ms: int | None = None) -> None:
        held = {} if hold_ms is None else {"hold_ms": hold_ms}
        self._aborted_by = await self._tools.moves.record(
            self._name, self._number, self._step, self._progress, **held
        )

    async def _check_hold(self) -> None:
        """Record the progress. Raise LostMoveError if another master has taken the move over."""
        await self._surely(self._record)

    async def _keep_hold(self) -> None:
        while not self._is_lost:
            await self._tools.clock.sleep(RECORD_S)
            try:
                await self._record()
            except LostMoveError:
                self._is_lost = True
            except JqmasterError as exc:
                logger.warning("cannot record the move of namespace %s: %s", self._name, exc.detail)

    async def _wait(self, seconds: float) -> None:
        until_s = self._tools.clock.monotonic_s() + seconds
        while (left_s := until_s - self._tools.clock.monotonic_s()) > 0:
            self._look()
            await self._tools.clock.sleep(min(left_s, POLL_S))

    def _look(self) -> None:
        """Raise an error if another master has taken the move over, or somebody has aborted it."""
        if self._is_lost:
            raise LostMoveError
        if self._aborted_by and self._step != "returning":
            raise _StoppedError(f"{self._aborted_by} aborted it", "aborted")

    async def _surely(self, act: Callable[[], Awaitable[_T]]) -> _T:
        """Repeat an action until the store answers. Raise LostMoveError if another master has taken the move over."""
        while True:
            if self._is_lost:
                raise LostMoveError
            try:
                return await act()
            except (StoreUnavailableError, OutcomeUnknownError) as exc:
                logger.warning("the move of namespace %s waits for a store: %s", self._name, exc.detail)
                await self._tools.clock.sleep(RETRY_S)


_ACTIONS: Final[dict[MoveStep, str]] = {"done": "moved", "failed": "move_failed", "aborted": "move_aborted"}
