"""The leader's looks at its shard. A look finds out which work is due and which work waits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jqmaster.domain.jobs.job import FINISHED, JobState
from jqmaster.store.link.scripts import ScriptCall, load
from jqmaster.store.link.shard import Shard

# Maximum number of names that a look checks one by one. If more names have jobs or had jobs within the last minute, the
# look reports that jobs are ready.
MANY_NAMES: Final = 100


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a shard. All times are milliseconds until an instant by the store's clock (0: the instant has come;
    -1: there is none).

    * `jobs`: until a job is due or expires.
    * `leases`: until a lease ends.
    * `callbacks`: until the wait for a callback ends.
    * `gates`: until a gate opens by itself.
    * `results`: until a result is discarded.
    * `has_…`: whether there are any such entries.
    * `is_ready`: whether jobs are ready.
    * `workers`: how many are registered.
    * `silent_ms`: how long the longest silent worker has been silent.
    * `edition`: version, edition, and edition in force of the constraints.
    * `finished`: by final state, how many jobs there are, and how long ago the first of them ended.
    """

    now_ms: int
    jobs: int
    leases: int
    callbacks: int
    definitions: int
    event_groups: int
    batches: int
    gates: int
    results: int
    has_follow_ups: bool
    has_suspects: bool
    has_changed_gates: bool
    has_counted_gates: bool
    has_actions: bool
    has_notices: bool
    has_logs: bool
    is_ready: bool
    workers: int
    silent_ms: int
    edition: tuple[int, int, int]
    finished: Mapping[JobState, tuple[int, int]]


class LookStore:
    """Looks at one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._states: Final = sorted(FINISHED)
        k = shard.keys
        due = (
            k.scheduled, k.retrying, k.expiring, k.running, k.awaiting_callback, k.definitions_due,
            k.definitions_due_on_days, k.event_groups, k.batches_due, k.gates_due, k.results,
            *map(k.finished, self._states),
        )  # fmt: skip
        waiting = (
            k.follow_ups, k.suspects, k.reopened, k.counted, k.running_actions, k.notices, k.notice_states,
            k.log_times, k.log_waits,
        )  # fmt: skip
        self._keys = (k.epoch, k.rules, k.workers, k.ready_counts, *due, *waiting)
        self._due_keys, self._waiting_keys = len(due), len(waiting)
        # The answer that `look` received last.
        self._seen: Sequence[Any] = ()
        # The answer to `call_for_entries` while the shard has no entries and nothing changes. Empty: the shard had
        # entries at the last look.
        self.facts_without_entries = b""

    @property
    def is_shared(self) -> bool:
        """Return whether other shards use the store, so that looks share round trips."""
        return self._shard.client.together.shards > 1

    def call(self, epoch: str) -> ScriptCall:
        """Return the call that looks at the shard as the leader of `epoch`."""
        return ScriptCall(
            load("look_at_shard"), self._keys, (self._shard.now_arg, epoch, MANY_NAMES, self._due_keys)
        )

    async def look(self, epoch: str) -> Look:
        """Look at the shard as the leader of `epoch`. Raise StaleEpochError."""
        _, data = await self._shard.client.together.run(self.call(epoch))
        self._seen = data
        # The script returns empty lists if the shard has none of the keys.
        editions = "" if data[1] else f"{epoch} {data[7]} {data[8]} {data[9]}"
        self.facts_without_entries = editions.encode()
        return self._read(data)

    def call_for_entries(self) -> ScriptCall:
        """Return the call that finds out whether the shard still has no entries, for `StoreClient.run_joined`."""
        return ScriptCall(load("look_for_entries"), self._keys, (self._shard.now_arg, len(self._keys)))

    def unchanged_at_ms(self, data: Sequence[Any]) -> int | None:
        """Return the store's time from `data` if nothing else in it differs from the answer to the last `look`. Return
        None if something differs. `data`: the answer to a `call` that was made after this look.

        Even if nothing differs, a due time in the answer may have passed since.
        """
        return int(data[0]) if data[1:] == self._seen[1:] else None

    def _read(self, data: Sequence[Any]) -> Look:
        now_ms, firsts, counts, waiting, is_ready, workers, silent_ms, version, edition, settled = data
        # The script returns empty lists if the shard has none of the keys.
        firsts, counts = firsts or [-1] * self._due_keys, counts or [0] * self._due_keys
        waiting = waiting or [0] * self._waiting_keys

        def until(*at: int) -> int:
            return min((max(0, firsts[n] - now_ms) for n in at if firsts[n] >= 0), default=-1)

        follow_ups, suspects, reopened, counted, actions, notices, states, log_times, log_waits = map(
            bool, waiting
        )
        first_state = len(firsts) - len(self._states)
        return Look(
            now_ms,
            jobs=until(0, 1, 2),
            leases=until(3),
            callbacks=until(4),
            definitions=until(5, 6),
            event_groups=until(7),
            batches=until(8),
            gates=until(9),
            results=until(10),
            has_follow_ups=follow_ups,
            has_suspects=suspects,
            has_changed_gates=reopened,
            has_counted_gates=counted,
            has_actions=actions,
            has_notices=notices or states,
            has_logs=log_times or log_waits,
            is_ready=bool(is_ready),
            workers=workers,
            silent_ms=silent_ms,
            edition=(version, edition, settled),
            finished={
                state: (counts[n], now_ms - firsts[n])
                for n, state in enumerate(self._states, first_state)
                if counts[n]
            },
        )
