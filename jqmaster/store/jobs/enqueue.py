"""Enqueues jobs: each is accepted once, under the ID that its pusher gave it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from jqmaster.domain.job import JobSpec
from jqmaster.domain.ruleset import NO_RULES, Ruleset
from jqmaster.domain.tally import Tally
from jqmaster.errors import OutcomeUnknownError, StoreUnavailableError
from jqmaster.store import codec
from jqmaster.store.jobs.placement import LaneTable, StaleRules
from jqmaster.store.link.leader_port import TravellingClaim
from jqmaster.store.link.pages import MAX_PER_CALL, pages
from jqmaster.store.link.scripts import Arg, ScriptCall, load
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import JobDelayed, JobsReady

# The leader finds jobs that are due later than this by itself: it looks every second.
SOON_MS: Final = 2000

FULL: Final = -2


class Accepted(Enum):
    """The outcome of one enqueue."""

    NEW = 1
    KNOWN = 0
    TAKEN = -1


# Looked up for each job of a push; asking the class takes ten times as long.
_ACCEPTED: Final = {accepted.value: accepted for accepted in Accepted}


@dataclass(frozen=True, slots=True)
class BacklogFull:
    """Refused: as many jobs as its constraint allows wait at this gate."""

    gate_id: str


@dataclass(frozen=True, slots=True)
class KeyedSpec:
    """A job with the digest of its idempotency key and the life of that key."""

    key_digest: str
    spec: JobSpec
    life_ms: int


class KeysTaken(Exception):  # noqa: N818 - a value for the service, not an error of the store
    """`indexes` of the keys that stand for other requests already."""

    def __init__(self, indexes: Sequence[int]) -> None:
        super().__init__(indexes)
        self.indexes = indexes


class AcceptanceStore:
    """New jobs of one shard. `tally` counts what the store has confirmed. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, tally: Tally) -> None:
        self._shard = shard
        self._tally = tally
        self._client = shard.client
        self._keys = shard.keys

    async def enqueue(
        self,
        specs: Sequence[JobSpec],
        rules: Ruleset = NO_RULES,
        *,
        is_whole: bool = False,
        replicas: int | None = None,
    ) -> list[Accepted | BacklogFull]:
        """Accept each job separately, in one round trip; `is_whole`: a full backlog refuses all of them. `replicas`:
        how many must have them before they count as accepted (None: as many as every write needs).

        Raises StaleRules; what was accepted nevertheless is KNOWN to the repeat. Raise StoreUnavailableError when the
        data are gone or others, as after a FLUSHALL.
        """
        calls = self._enqueue_calls(specs, rules, is_whole=is_whole)
        # The first call of a whole push speaks for all of it: when it is let in, so is the rest.
        first = calls[:1] if is_whole else calls
        rest = calls[len(first) :]
        claim = None if rest else self._claim_with(specs, replicas)
        replies = await self._client.run_all(first, claim=claim, replicas=replicas)
        _raise_refusal(replies)
        statuses = _enqueued(replies)
        if is_whole and isinstance(statuses[0], BacklogFull):
            return [statuses[0]] * len(specs)
        self._count_pushed(specs, statuses)
        others: list[Accepted | BacklogFull] = []
        if rest:
            claim = self._claim_with(specs, replicas)
            try:
                replies = await self._client.run_all(rest, claim=claim, replicas=replicas)
            except StoreUnavailableError as exc:
                raise OutcomeUnknownError(
                    f"the store did a part of it; repeat with the same IDs ({exc.detail})",
                    retry_after_s=exc.retry_after_s,
                ) from exc
            _raise_refusal(replies)
            others = _enqueued(replies)
        if claim is None and not all(spec.delay_ms for spec in specs):
            self._shard.leader.wake(JobsReady())
        if any(spec.run_at_ms is not None or 0 < (spec.delay_ms or 0) <= SOON_MS for spec in specs):
            self._shard.leader.wake(JobDelayed())
        self._count_pushed(specs[len(statuses) :], others)
        return statuses + others

    def _claim_with(self, specs: Sequence[JobSpec], replicas: int | None) -> TravellingClaim | None:
        """Return the leader's claims of the jobs that become ready at once, if any do."""
        if replicas not in (None, self._client.quorum_replicas):
            # A claim counts as any write does, whatever its job was pushed with.
            return None
        names = {spec.name for spec in specs if spec.run_at_ms is None and not spec.delay_ms}
        return self._shard.leader.claim_with(JobsReady(), names) if names else None

    def _count_pushed(self, specs: Sequence[JobSpec], statuses: Sequence[Accepted | BacklogFull]) -> None:
        accepted = [
            spec.name for spec, status in zip(specs, statuses, strict=False) if status is Accepted.NEW
        ]
        for name, count in Counter(accepted).items():
            self._tally.of(name).pushed += count

    def _enqueue_calls(self, specs: Sequence[JobSpec], rules: Ruleset, *, is_whole: bool) -> list[ScriptCall]:
        k = self._keys
        calls = []
        for start in range(0, len(specs), MAX_PER_CALL):
            chunk = specs[start : start + MAX_PER_CALL]
            table = LaneTable()
            jobs: list[Arg] = []
            for spec in chunk:
                lane, gates = table.place(rules, spec)
                terms, digest, rest = codec.encode_new(spec, gates)
                jobs += (spec.id, terms + lane.to_bytes(2, "big"), digest, rest)
            following = Counter[int]()
            if is_whole and start == 0:
                following.update(table.place(rules, spec)[0] for spec in specs[MAX_PER_CALL:])
            push = "each" if not is_whole else "rest" if start else "whole"
            head: tuple[Arg, ...] = (
                self._shard.now_arg, k.tag, self._shard.wake_channel, rules.edition, push,
                codec.pack(list(following.items())), table.packed(), self._shard.mark,
            )  # fmt: skip
            calls.append(ScriptCall(load("enqueue"), (k.scheduled, k.expiring, k.rules), (*head, *jobs)))
        return calls

    async def find_taken(self, specs: Sequence[JobSpec]) -> list[int]:
        """Return the positions of jobs whose ID stands for another request already."""
        prefix = self._keys.job_prefix
        known = await self._client.pipeline(
            [("EXISTS", *[prefix + spec.id for spec in chunk]) for chunk in pages(specs, MAX_PER_CALL)]
        )
        if not any(known):
            return []
        calls = []
        for chunk in pages(specs, MAX_PER_CALL):
            args: list[Arg] = [self._keys.job_prefix]
            for spec in chunk:
                args += (spec.id, codec.encode_new(spec)[1])
            calls.append(ScriptCall(load("find_taken"), (), args))
        replies = await self._client.run_all(calls)
        return [n * MAX_PER_CALL + index for n, (_, data) in enumerate(replies) for index in data[0]]

    async def reserve_ids(
        self, keyed: Sequence["KeyedSpec"], *, replicas: int | None = None
    ) -> list[tuple[str, bool]]:
        """Reserve and return the job ID that each idempotency key stands for, and whether it was accepted. Raise
        KeysTaken, which names the keys of one page that stand for other requests; keys of earlier pages stay reserved.
        """
        found: list[tuple[str, bool]] = []
        for page in pages(keyed, MAX_PER_CALL):
            args: list[Arg] = [self._keys.idempotency_prefix]
            for one in page:
                args += (one.key_digest, one.spec.id, codec.encode_new(one.spec)[1], one.life_ms)
            word, (answers,) = await self._client.run("reserve_ids", (), args, replicas=replicas)
            if word == "taken":
                raise KeysTaken([len(found) + index for index in answers])
            found += [(answers[n].decode(), bool(answers[n + 1])) for n in range(0, len(answers), 2)]
        return found

    async def mark_accepted(self, key_digests: Sequence[str], *, replicas: int | None = None) -> None:
        """To be called when the jobs of idempotency keys were accepted."""
        for page in pages(key_digests, MAX_PER_CALL):
            args = (self._keys.idempotency_prefix, "+", *page)
            await self._client.run("mark_accepted", (), args, replicas=replicas)


def _raise_refusal(replies: Sequence[tuple[str, list[Any]]]) -> None:
    words = {word for word, _ in replies}
    if "other_data" in words:
        raise StoreUnavailableError(
            "the store's data are gone or are others; nothing is enqueued into them",
            code="store_unfit",
            retry_after_s=5.0,
        )
    if "stale_rules" in words:
        raise StaleRules


def _enqueued(replies: Sequence[tuple[str, list[Any]]]) -> list[Accepted | BacklogFull]:
    return [
        BacklogFull(data[2].decode()) if code == FULL else _ACCEPTED[code]
        for _, data in replies
        for code in data[1]
    ]
