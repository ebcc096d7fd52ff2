"""The primary is cut off from its replicas and the Sentinels, while a master beside it continues to write to it.

Each server of the store is known to the others, and to whoever asks the Sentinels, by the port of a link; the
master beside the primary reaches it without one. So one link that holds everything cuts a server off from all but
that master.
"""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import redis

from jqmaster.config import Durability, Settings
from jqmaster.domain.ids import new_id
from jqmaster.store.keys import Keys
from tests.chaos.proxy import RawLink, Weather
from tests.support.master import QUICK, Api, assert_sound
from tests.support.processes import MasterProcess, running
from tests.support.topology import Sentinels, StoreNode
from tests.support.waiting import wait_until

# Times as a user gets them. MasterProcess has shorter ones by default.
AS_SHIPPED: Final = {name: Settings.model_fields[name].default for name in QUICK if name != "port"}
DOWN_AFTER_MS: Final = 1500
# How long the cut lasts after the promotion.
BEYOND_S: Final = 2.0
# From the promotion, or the end of the cut, until work resumes.
RESUME_S: Final = 5.0
NEAR_PUSHERS: Final = 16
FAR_PUSHERS: Final = 4
# Jobs accepted beside the primary before the cut.
WARM: Final = 50
PAGE: Final = 500
PROMOTED_WITHIN_S: Final = 30.0
DEMOTED_WITHIN_S: Final = 60.0
WARM_WITHIN_S: Final = 30.0


@dataclass(slots=True)
class Push:
    """`outcome` is accepted (200, 201), unknown, or refused. Times are seconds on the loop's clock."""

    job_id: str
    is_near: bool
    sent_s: float
    answered_s: float = 0.0
    outcome: str = "unknown"


@dataclass(slots=True)
class Round:
    """The result of one isolation. Times as in Push. The sets contain IDs of jobs from this round and earlier ones."""

    # With this, the near master found out when the cut ended, and the new primary has what it accepted from then on.
    asks_sentinels: bool = False
    cut_s: float = 0.0
    promoted_s: float = 0.0
    healed_s: float = 0.0
    demoted_s: float = 0.0
    pushes: list[Push] = field(default_factory=list)
    # Calls beside the cut that the old primary had at its end.
    written_there: set[str] = field(default_factory=set)
    # Missing from the new primary after the old one became its replica: of all accepted calls; of those written there.
    lost: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    # Refused but kept anyway.
    refused_and_kept: set[str] = field(default_factory=set)
    # Calls with an unknown outcome that were not accepted on a repeat with the same ID.
    unresolved: set[str] = field(default_factory=set)


class TranslatingLink(RawLink):
    """A Sentinel proxy for the master beside the primary. It replaces a server's link port in the answers with the
    server's own. Both have five digits."""

    def __init__(self, name: str, port: int, nodes: list[StoreNode]) -> None:
        super().__init__(name, ("127.0.0.1", port), seed=0)
        self._nodes = nodes

    async def _answer(self, data: bytes) -> bytes:
        data = await super()._answer(data)
        for node in self._nodes:
            data = data.replace(b"\r\n%d\r\n" % node.known_port, b"\r\n%d\r\n" % node.port)
        return data


class Isolation:
    """A primary with two replicas and three Sentinels, a master that asks these (far), and for each round another
    master (near) that is cut off together with the current primary."""

    def __init__(
        self, sentinels: Sentinels, links: list[RawLink], directory: Path, durability: Durability
    ) -> None:
        self._sentinels = sentinels
        self._links = dict(zip((node.known_port for node in sentinels.nodes), links, strict=True))
        self._directory = directory
        self.shard = f"i{uuid.uuid4().hex[:10]}"
        self._settings = {**AS_SHIPPED, "durability": durability, "shard": self.shard}
        self._keys = Keys(self.shard)
        self._accepted: set[str] = set()
        self.rounds: list[Round] = []
        (directory / "far").mkdir()
        self.far = MasterProcess(directory / "far", sentinels.url, **self._settings)

    @classmethod
    @contextlib.asynccontextmanager
    async def begun(cls, directory: Path, durability: Durability) -> AsyncIterator["Isolation"]:
        """Run the rig and end with fsck."""
        nodes = [StoreNode("--repl-diskless-sync-delay", "0") for _ in range(3)]
        links = [RawLink(f"store-{n}", ("127.0.0.1", node.port), seed=0) for n, node in enumerate(nodes)]
        async with contextlib.AsyncExitStack() as stack:
            for node, link in zip(nodes, links, strict=True):
                await link.start()
                stack.push_async_callback(link.stop)
                node.be_known_at(link.port)
            sentinels = Sentinels(nodes=nodes, down_after_ms=DOWN_AFTER_MS)
            stack.push_async_callback(asyncio.to_thread, sentinels.stop)
            # Use another thread, because the links run in this one: without them, nothing would reach the servers it
            # waits for.
            await asyncio.to_thread(sentinels.start)
            isolation = cls(sentinels, links, directory, durability)
            async with _run(isolation.far):
                yield isolation
            await assert_sound(sentinels.url, isolation.shard)

    async def isolate(self, *, is_by_hand: bool = False, asks_sentinels: bool = False) -> Round:
        """Run the next round, from one sound system to the next. By hand the old primary is made a replica at once; the
        Sentinels let one that says of itself that it is the primary be for some fifteen seconds. The near master
        knows only the primary, or asks the Sentinels too, from which it is cut off as well: then the cut is over
        when it accepts again."""
        done = Round(asks_sentinels=asks_sentinels)
        old = await asyncio.to_thread(lambda: self._sentinels.primary)
        directory = self._directory / f"near-{len(self.rounds) + 1}"
        directory.mkdir()
        async with contextlib.AsyncExitStack() as stack:
            url, cut = old.url, [self._links[old.known_port]]
            if asks_sentinels:
                ways = await self._ways_to_sentinels(stack)
                url, cut = self._sentinels.url_at(way.port for way in ways), [*cut, *ways]
            near = MasterProcess(directory, url, **self._settings)
            await stack.enter_async_context(_run(near))
            await stack.enter_async_context(self._pushing(done, near))
            await self._cut_off(done, old, cut)
            done.healed_s = asyncio.get_running_loop().time()
            for link in cut:
                link.clear()
            if asks_sentinels:
                await wait_until(
                    lambda: any(
                        p.is_near and p.outcome == "accepted" and p.sent_s > done.healed_s
                        for p in done.pushes
                    ),
                    timeout_s=RESUME_S,
                    what="the master beside the old primary goes to the new one",
                )
            await self._until_demoted(done, old, is_by_hand=is_by_hand)
        new = await asyncio.to_thread(lambda: self._sentinels.primary)
        await self._judge(done, new)
        await asyncio.to_thread(self._sentinels.wait_until_in_sync)
        await asyncio.to_thread(self._sentinels.wait_until_agreed)
        self.rounds.append(done)
        return done

    async def _ways_to_sentinels(self, stack: contextlib.AsyncExitStack) -> list[TranslatingLink]:
        ways = [
            TranslatingLink(f"sentinel-{n}", one.port, self._sentinels.nodes)
            for n, one in enumerate(self._sentinels.sentinels)
        ]
        for way in ways:
            await way.start()
            stack.push_async_callback(way.stop)
        return ways

    async def _cut_off(self, done: Round, old: StoreNode, links: list[RawLink]) -> None:
        loop = asyncio.get_running_loop()
        await wait_until(
            lambda: sum(p.is_near and p.outcome == "accepted" for p in done.pushes) >= WARM,
            timeout_s=WARM_WITHIN_S,
            what="work is under way beside the primary",
        )
        done.cut_s = loop.time()
        for link in links:
            link.change(Weather(holds_requests=True, holds_answers=True))
        others = [node for node in self._sentinels.nodes if node is not old]

        async def is_promoted() -> bool:
            return await asyncio.to_thread(lambda: any(node.is_primary for node in others))

        await wait_until(is_promoted, timeout_s=PROMOTED_WITHIN_S, what="a replica is promoted")
        done.promoted_s = loop.time()
        await asyncio.sleep(BEYOND_S)
        await wait_until(
            lambda: asyncio.to_thread(lambda: self._sentinels.primary is not old),
            what="the Sentinels name another primary",
        )
        during = [
            push.job_id
            for push in done.pushes
            if push.is_near and (not push.answered_s or push.answered_s > done.cut_s)
        ]
        done.written_there = await self._there(old, during)

    async def _until_demoted(self, done: Round, old: StoreNode, *, is_by_hand: bool) -> None:
        if is_by_hand:
            await asyncio.to_thread(self._sentinels.heal)

        async def is_demoted() -> bool:
            found = await asyncio.to_thread(old.ask, "INFO", "replication")
            return bool(found.get("master_link_status") == "up")

        await wait_until(is_demoted, timeout_s=DEMOTED_WITHIN_S, what="the old primary is a replica")
        done.demoted_s = asyncio.get_running_loop().time()

    @contextlib.asynccontextmanager
    async def _pushing(self, done: Round, near: MasterProcess) -> AsyncIterator[None]:
        """Let each call finish."""
        over = asyncio.Event()
        async with contextlib.AsyncExitStack() as stack:
            near_api, far_api = Api(near.url), Api(self.far.url)
            stack.push_async_callback(near_api.http.aclose)
            stack.push_async_callback(far_api.http.aclose)
            apis = [near_api] * NEAR_PUSHERS + [far_api] * FAR_PUSHERS
            tasks = [
                asyncio.create_task(self._push(done, api, over, is_near=api is near_api)) for api in apis
            ]
            try:
                yield
            except BaseException:
                for task in tasks:
                    task.cancel()
                raise
            finally:
                over.set()
                await asyncio.gather(*tasks, return_exceptions=True)
            for task in tasks:
                task.result()

    async def _push(self, done: Round, api: Api, over: asyncio.Event, *, is_near: bool) -> None:
        loop = asyncio.get_running_loop()
        while not over.is_set():
            push = Push(new_id(), is_near, loop.time())
            done.pushes.append(push)
            push.outcome = await _outcome(api, push.job_id)
            push.answered_s = loop.time()
            await asyncio.sleep(0.01 if push.outcome == "accepted" else 0.1)

    async def _judge(self, done: Round, new: StoreNode) -> None:
        ids = {
            what: {push.job_id for push in done.pushes if push.outcome == what}
            for what in ("accepted", "unknown", "refused")
        }
        self._accepted |= ids["accepted"]
        done.lost = self._accepted - await self._there(new, self._accepted)
        done.dropped = done.written_there - await self._there(new, done.written_there)
        done.refused_and_kept = await self._there(new, ids["refused"])
        api = Api(self.far.url)
        async with contextlib.aclosing(api.http):
            for job_id in ids["unknown"]:
                if await _outcome(api, job_id) == "accepted":
                    self._accepted.add(job_id)
                else:
                    done.unresolved.add(job_id)

    async def _there(self, node: StoreNode, job_ids: Iterable[str]) -> set[str]:
        """Return the jobs whose records the server has, without asking a master."""
        return await asyncio.to_thread(self._look, node, list(job_ids))

    def _look(self, node: StoreNode, job_ids: list[str]) -> set[str]:
        found: set[str] = set()
        with redis.Redis(unix_socket_path=str(node.socket), protocol=2) as client:
            for n in range(0, len(job_ids), PAGE):
                page = job_ids[n : n + PAGE]
                with client.pipeline(transaction=False) as pipeline:
                    for job_id in page:
                        pipeline.exists(self._keys.job(job_id))
                    found |= {
                        job_id for job_id, is_there in zip(page, pipeline.execute(), strict=True) if is_there
                    }
        return found


async def _outcome(api: Api, job_id: str) -> str:
    try:
        status, answer = await api.call("POST", "/api/jobs", {"name": "isolated", "id": job_id})
    except httpx.TransportError:
        return "unknown"
    if status in (200, 201):
        return "accepted"
    assert status == 503, answer
    return "unknown" if answer["code"] == "outcome_unknown" else "refused"


@contextlib.asynccontextmanager
async def _run(process: MasterProcess) -> AsyncIterator[None]:
    """Run a process like `running`, but in other threads, because its store is behind links of this one."""
    stack = contextlib.ExitStack()
    await asyncio.to_thread(stack.enter_context, running(process))
    try:
        yield
    except BaseException as error:
        await asyncio.to_thread(stack.__exit__, type(error), error, error.__traceback__)
        raise
    await asyncio.to_thread(stack.close)


# --- what it shows


def judge(
    rounds: list[Round], *, resume_s: float = RESUME_S
) -> tuple[dict[str, Any], list[tuple[bool, str]]]:
    """Return the figures to show, and the named bounds to hold."""
    pushes = [push for one in rounds for push in one.pushes]
    outcomes = {
        what: sum(push.outcome == what for push in pushes) for what in ("accepted", "unknown", "refused")
    }
    resumed = [_resumed_s(one) for one in rounds]
    accepted_there = [
        push
        for one in rounds
        for push in one.pushes
        if push.is_near
        and push.outcome == "accepted"
        and one.cut_s < push.sent_s
        and not (one.asks_sentinels and one.healed_s < push.answered_s)
    ]
    shown = {
        "rounds": len(rounds),
        **outcomes,
        "lost": len(set().union(*(one.lost for one in rounds))),
        "accepted_by_the_isolated": len(accepted_there),
        "written_to_the_isolated": sum(len(one.written_there) for one in rounds),
        "dropped_by_the_isolated": sum(len(one.dropped) for one in rounds),
        "refused_and_kept": sum(len(one.refused_and_kept) for one in rounds),
        "unresolved": sum(len(one.unresolved) for one in rounds),
        "promoted_after_s": _spread([one.promoted_s - one.cut_s for one in rounds]),
        "resumed_after_s": _spread([s for s in resumed if s is not None]),
        "demoted_after_s": _spread([one.demoted_s - one.healed_s for one in rounds]),
    }
    return shown, [
        (shown["lost"] == 0, "nothing accepted is lost"),
        (not accepted_there, "the isolated primary's master accepts nothing"),
        (shown["refused_and_kept"] == 0, "what was refused did not happen"),
        (shown["unresolved"] == 0, "what was unknown is accepted when it is repeated"),
        (
            all(s is not None and s <= resume_s for s in resumed),
            f"the others accept within {resume_s:g} s of the promotion",
        ),
        (
            bool(rounds) and all(_bit(one) for one in rounds),
            "each time something was written to the isolated primary and dropped by it, or nothing was shown",
        ),
    ]


def _bit(one: Round) -> bool:
    # A client that asks the Sentinels stops writing at the first doubt, and the replicas may have had everything until
    # then.
    return bool(one.dropped or (one.asks_sentinels and one.written_there))


def _resumed_s(one: Round) -> float | None:
    """Return the time from the promotion until the masters behind the Sentinels accepted a push sent after it."""
    later = [
        push.answered_s
        for push in one.pushes
        if not push.is_near and push.outcome == "accepted" and push.sent_s > one.promoted_s
    ]
    return min(later) - one.promoted_s if later else None


def _spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {"p50": round(ordered[len(ordered) // 2], 2), "max": round(ordered[-1], 2)} if ordered else {}
