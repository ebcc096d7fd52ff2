"""One installation imports the lines of another: each object once, existing objects stay, and losses are told."""

import contextlib
import io
import json
import os
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import msgpack
import pytest

from jqmaster.app.policies import job_times
from jqmaster.cli.console import exits
from jqmaster.cli.transfer.export_files import check
from jqmaster.cli.transfer.exporting import Exporting
from jqmaster.cli.transfer.importing import Imported, Importing
from jqmaster.cli.transfer.installation import Installation
from jqmaster.cli.transfer.lines import Unknown
from jqmaster.config import Settings
from jqmaster.domain.batches.batch import BatchCallback, BatchSpec
from jqmaster.domain.calendars.calendar import Calendar, CalendarSource
from jqmaster.domain.fireworq.queue import FireworqQueue
from jqmaster.domain.identity.access import Role, Scope
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.predecessors import After
from jqmaster.domain.jobs.unique import OnConflict, Unique, unique_digest
from jqmaster.domain.operations.tally import Tally
from jqmaster.domain.workers.slot_rule import SlotRule
from jqmaster.errors import ConflictError, NotFoundError, OverloadedError
from jqmaster.service.named_objects import Precondition
from jqmaster.store.backup import loading
from jqmaster.store.batches.batches import BatchStore
from jqmaster.store.health import generation
from jqmaster.store.identity.credentials import CredentialStore, StoredToken, StoredUser
from jqmaster.store.jobs.enqueue_outcomes import Accepted
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from jqmaster.store.operations.settings import SettingsStore
from jqmaster.store.targets.targets import TargetStore
from tests.support.admin import forget_keys
from tests.support.server import StoreServer
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("D31")

SETTINGS = Settings()
ANYHOW = Precondition()


@contextlib.asynccontextmanager
async def world_on(url: str) -> AsyncIterator[StoreWorld]:
    client = StoreClient(url, connections=4)
    shard = Shard.bound(client, Keys(f"t{uuid.uuid4().hex[:10]}"))
    async with StoreWorld.on(shard) as found:
        found = found.on_store_time()
        await generation.mark(found.shard, uuid.uuid4().hex)
        yield found
    await forget_keys(shard)
    await client.close()


@pytest.fixture
async def source(store_server: StoreServer) -> AsyncIterator[StoreWorld]:
    async with world_on(store_server.url) as one:
        yield one


@pytest.fixture
async def target(store_server: StoreServer) -> AsyncIterator[StoreWorld]:
    async with world_on(store_server.url) as one:
        yield one


async def exported(world: StoreWorld, *, has_secrets: bool = False) -> bytes:
    exporting = Exporting(world.shard, job_times(SETTINGS), version="0.1", has_secrets=has_secrets)
    return b"".join([line async for line in exporting.run()])


async def imported(world: StoreWorld, text: bytes, *, without_results: bool = False) -> Imported:
    stream = io.BytesIO(text)
    file = check(stream, Unknown(are_skipped=False))
    parts = Installation(world.shard, SETTINGS)
    return await Importing(parts, without_results=without_results).run(stream, file)


def end_of(text: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text.splitlines()[-1])["document"]
    return document


async def fill(world: StoreWorld) -> dict[str, str]:
    """Give the world one of everything that an export holds. Return the IDs of its jobs."""
    ids = {
        "ready": await world.enqueue("work", {"n": 1}, priority=2),
        "scheduled": await world.enqueue("work", 2, delay_ms=3_600_000),
        "first": await world.enqueue("step", 3),
    }
    ids["second"] = await world.enqueue("step", 4, after=After((ids["first"],)))
    parts = Installation(world.shard, SETTINGS)
    await parts.settings.change({"retention_failed_s": 4321.0}, "ada")
    constraint = {
        "matcher": {"field": "name", "op": "eq", "value": "work"},
        "concurrency": 3,
        "weight": {"from": "argument.n", "default": 1, "unit": "pages"},
    }
    from jqmaster.api.constraints.schemas import ConstraintRequest
    from jqmaster.api.definitions.schemas import DefinitionRequest
    from jqmaster.api.notices.schemas import NoticeRequest
    from jqmaster.api.targets.schemas import TargetRequest

    request = ConstraintRequest.model_validate(constraint)
    await parts.constraint_editor.put("three", request.model_dump(), "ada", parts.access, ANYHOW)
    days_off = dict.fromkeys((date(2027, 1, 1), date(2027, 12, 31)), "Off")
    calendar = Calendar("japan", CalendarSource("JP"), days_off, ("sat", "sun"), date(2028, 12, 31))
    await parts.calendar_editor.take_over(calendar, "ada")
    job = {"name": "report", "argument": {"a": b"\x00"}, "headers": {"k": "v"}, "tags": ["t"]}
    for name, fields in (
        ("nightly", {"schedule": {"daily_at": "02:30"}, "time_zone": "Asia/Tokyo", "job": job,
                     "days": {"calendar": "japan", "rule": "next_workday"}}),
        ("orders", {"kind": "event", "event_type": "order.*", "argument": {"id": {"from": "payload.id"}},
                    "collect": {"max": 5, "within_s": 60.0}, "job": {"name": "orders"}}),
    ):  # fmt: skip
        asked = DefinitionRequest.model_validate(fields)
        await parts.definition_editor.put(
            name, asked.model_dump(), asked.job.to_spec(), who="ada", access=parts.access, most=100
        )
    for name, to in (
        ("mail", [{"mail": ["ops@shop.example"]}]),
        ("hook", [{"webhook": "https://shop.example/h?token=1", "secret": "whsec_" + "A" * 32}]),
    ):
        notice = NoticeRequest.model_validate({"when": "job_failed", "to": to})
        await parts.notice_editor.put(name, notice.model_dump(), who="ada")
    target = TargetRequest.model_validate(
        {"names": ["shop.*"], "url": "https://shop.example/{name}?token=1", "secret": "whsec_" + "B" * 32,
         "headers": {"X-Key": "token=1"}}
    )  # fmt: skip
    await parts.target_editor.put("shop", target.model_dump(), who="ada")
    await parts.fireworq.put_queue(FireworqQueue("mail", 100, 7, 2.5, 5), "ada")
    await parts.fireworq.put_routing("mail/welcome", "mail", "ada")
    await parts.workers.add_slot_rule(SlotRule("web-1", {"gpu": "1"}, 7, "ada", world.now_ms))
    credentials = CredentialStore(world.shard)
    hashed = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$" + "A" * 22
    ada = StoredUser("ada", Role.ADMIN, hashed, 5, roles={"shop": Role.VIEWER})
    await credentials.put_user("ada", None, ada, access_entry=b"\x80")
    token = StoredToken(
        "tok1", "ci", frozenset({Scope.PUSH}), ("a*",), b"d" * 32, 5, "ada", None, namespaces=("shop",)
    )
    await credentials.put_tokens([("tok1", None, token)], access_entry=b"\x80")
    return ids


async def test_everything_arrives_once_and_a_repeat_changes_nothing(
    source: StoreWorld, target: StoreWorld
) -> None:
    ids = await fill(source)
    text = await exported(source, has_secrets=True)
    assert end_of(text)["lines"] == {
        "setting": 1, "constraint": 2, "calendar": 1, "definition": 2, "notice": 2, "target": 2,
        "fireworq_queue": 1, "fireworq_routing": 1, "slot_rule": 1,
        "user": 1, "token": 1, "job": 4,
    }  # fmt: skip
    done = await imported(target, text)
    assert (done.left_out, dict(done.new)) == ([], end_of(text)["lines"])
    before = await target.contents()
    again = await imported(target, text)
    assert (again.left_out, dict(again.new), dict(again.there)) == ([], {}, end_of(text)["lines"])
    assert await target.contents() == before, "a repeat writes nothing at all"
    # The same installation says the same of itself, but for when and where.
    theirs = await exported(target, has_secrets=True)
    assert _without_times(theirs) == _without_times(text)
    credentials = CredentialStore(target.shard)
    assert (await credentials.load()).tokens["tok1"].namespaces == ("shop",)
    ada = await credentials.user("ada")
    assert ada is not None
    assert ada.roles == {"shop": Role.VIEWER}
    states = {one: (await target.records.get(job_id)).state for one, job_id in ids.items()}  # type: ignore[union-attr]
    assert states == {
        "ready": JobState.READY,
        "scheduled": JobState.SCHEDULED,
        "first": JobState.READY,
        "second": JobState.AWAITING_JOBS,
    }
    assert await target.findings() == []


def _without_times(text: bytes) -> list[Any]:
    lines = [json.loads(line) for line in text.splitlines()[1:]]
    for line in lines:
        line.get("facts", {}).pop("created_at", None)
    return sorted(lines, key=lambda line: (line["kind"], line["id"]))


async def test_an_import_that_others_always_overtake_stops_and_can_be_repeated(
    source: StoreWorld, target: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(source)
    text = await exported(source, has_secrets=True)

    async def overtaken(*args: object) -> bool:
        return False

    with monkeypatch.context() as patch:
        patch.setattr(TargetStore, "put", overtaken)
        with pytest.raises(OverloadedError, match="changes faster than") as refused:
            await imported(target, text)
    assert exits.code_of(refused.value) == exits.UNREACHABLE
    done = await imported(target, text)
    assert (done.left_out, done.new + done.there) == ([], Counter(end_of(text)["lines"]))
    assert done.new["target"] == 2


async def test_without_secrets_no_hash_and_no_address_that_lets_others_in_is_in_the_file(
    source: StoreWorld, target: StoreWorld
) -> None:
    await fill(source)
    text = await exported(source)
    assert not [
        secret for secret in (b"argon2", b"token=1", b"whsec_", (b"d" * 32).hex().encode()) if secret in text
    ]
    done = await imported(target, text)
    assert {(one.kind, one.id) for one in done.left_out} == {
        ("notice", "hook"),
        ("target", "shop"),
        ("user", "ada"),
        ("token", "tok1"),
    }
    assert all("--with-secrets" in one.reason for one in done.left_out)
    assert not (await CredentialStore(target.shard).load()).tokens


async def test_queues_of_the_gateway_stay_as_they_are_and_get_what_they_lack(
    source: StoreWorld, target: StoreWorld
) -> None:
    theirs, ours = (Installation(world.shard, SETTINGS) for world in (source, target))
    await theirs.fireworq.put_queue(FireworqQueue("mail", max_workers=7), "ada")
    await theirs.fireworq.put_queue(FireworqQueue("more", max_workers=8), "ada")
    await theirs.fireworq.put_routing("kept", "more", "ada")
    await theirs.fireworq.put_routing("new", "more", "ada")
    await ours.fireworq.put_queue(FireworqQueue("mail", max_workers=1), "bob")
    await ours.fireworq.put_routing("kept", "mail", "bob")
    lines = (await exported(source)).splitlines(keepends=True)
    # The target of a queue may be missing, for example because its headers are secrets.
    lines = [line for line in lines if b'"kind":"target"' not in line]
    counts = end_of(lines[-1])
    counts["lines"].pop("target")
    text = b"".join(lines[:-1]) + json.dumps({**json.loads(lines[-1]), "document": counts}).encode()
    done = await imported(target, text)
    assert done.left_out == []
    assert (done.new["fireworq_queue"], done.there["fireworq_queue"]) == (1, 1)
    assert (done.new["fireworq_routing"], done.there["fireworq_routing"]) == (1, 1)
    found = await ours.fireworq.all(at_once=True)
    assert {name: queue.max_workers for name, queue in found.queues.items()} == {"mail": 1, "more": 8}
    assert found.routings == {"kept": "mail", "new": "more"}
    targets = (await TargetStore(target.shard).load()).targets
    assert {name: one.target.max_running for name, one in targets.items()} == {
        "fireworq:mail": 1,
        "fireworq:more": 8,
    }


async def test_a_routing_to_a_queue_that_is_not_there_is_left_out(
    source: StoreWorld, target: StoreWorld
) -> None:
    parts = Installation(source.shard, SETTINGS)
    await parts.fireworq.put_queue(FireworqQueue("mail"), "ada")
    await parts.fireworq.put_routing("c", "mail", "ada")
    await parts.fireworq.delete_queue("mail", "ada")
    done = await imported(target, await exported(source))
    assert [(one.kind, one.id) for one in done.left_out] == [("fireworq_routing", "c")]
    assert "mail" in done.left_out[0].reason


async def test_jobs_that_ran_may_run_again_unless_they_must_not(
    source: StoreWorld, target: StoreWorld
) -> None:
    may, must_not = await source.enqueue("a", 1), await source.enqueue("b", 2, max_retry=0)
    worker = await source.worker("a", "b")
    await source.claims.claim(source.epoch, worker, ["a", "b"], 2)
    done = await imported(target, await exported(source))
    assert (dict(done.new), dict(done.may_run_again)) == ({"job": 1}, {"running": 1})
    ((left),) = done.left_out
    assert (left.id, left.is_refused) == (must_not, False)
    assert "must not run twice" in left.reason
    job = await target.records.get(may)
    assert job
    assert (job.state, job.attempt) == (JobState.READY, 0)


async def test_a_job_that_needs_results_of_jobs_that_are_over_is_left_out_unless_asked(
    source: StoreWorld, target: StoreWorld
) -> None:
    gone, first = new_id(), await source.enqueue("step", 1)
    assert await source.acceptance.enqueue([source.spec("step", 0, id=gone)]) == [Accepted.NEW]
    waits = await source.enqueue("step", 2, after=After((gone, first)))
    last = await source.enqueue("step", 3, after=After((waits,)))
    await source.operator_actions.delete(gone)
    text = await exported(source)
    if waits.encode() not in text:
        pytest.fail("a job that waits for a deleted one is not over yet")
    done = await imported(target, text)
    assert [one.id for one in done.left_out] == [waits, last]
    assert "--without-results" in done.left_out[0].reason
    assert f"job {waits}, for which it waits, is not there" in done.left_out[1].reason
    done = await imported(target, text, without_results=True)
    assert (done.new["job"], done.left_out) == (2, [])
    job = await target.records.get(waits)
    assert job
    assert job.after == After((first,))


async def test_long_chains_arrive_in_order(source: StoreWorld, target: StoreWorld) -> None:
    before = await source.enqueue("step", 0)
    for n in range(30):
        before = await source.enqueue("step", n, after=After((before,)))
    done = await imported(target, await exported(source))
    assert (done.new["job"], done.left_out) == (31, [])


async def test_a_job_that_is_there_stays_as_it_is(source: StoreWorld, target: StoreWorld) -> None:
    job_id = await source.enqueue("work", "theirs")
    await target.enqueue("work", "ours", id=job_id)
    done = await imported(target, await exported(source))
    assert (dict(done.new), dict(done.there)) == ({}, {"job": 1})
    job = await target.records.get(job_id)
    assert job
    assert msgpack.unpackb(job.argument) == "ours"


async def test_a_key_that_another_job_holds_is_told_and_nothing_is_replaced(
    source: StoreWorld, target: StoreWorld
) -> None:
    def unique() -> Unique:
        digest = unique_digest("work", "k", b"", msgpack.unpackb)
        return Unique(digest, "k", on_conflict=OnConflict.REPLACE)

    await source.enqueue("work", "theirs", unique=unique())
    holder = await target.enqueue("work", "ours", unique=unique())
    done = await imported(target, await exported(source))
    (left,) = done.left_out
    assert left.reason == f"job {holder} holds its uniqueness key"
    job = await target.records.get(holder)
    assert job
    assert msgpack.unpackb(job.argument) == "ours"


async def test_an_open_batch_arrives_with_its_members_and_is_sealed_again(
    source: StoreWorld, target: StoreWorld
) -> None:
    batches = BatchStore(source.shard, Tally())
    callbacks = {one: replace(source.spec(f"then.{one}", b"\x00"), id="") for one in BatchCallback}
    spec = BatchSpec(new_id(), "import", ("t",), callbacks, owner="ada")
    assert await batches.put(spec, life_ms=3_600_000)
    members = [await source.enqueue("work", n, batch=spec.id) for n in range(3)]
    await batches.seal(spec.id)
    done = await imported(target, text := await exported(source))
    assert (dict(done.new), done.left_out) == ({"batch": 1, "job": 3}, [])
    found = await BatchStore(target.shard, Tally()).get(spec.id)
    assert found
    assert (str(found.state), found.total) == ("sealed", 3)
    assert found.spec.callbacks == spec.callbacks
    assert (await imported(target, text)).there == {"batch": 1, "job": 3}
    # A member failed: its batch cannot succeed any more.
    worker = await source.worker("work")
    claim = await source.claims.claim(source.epoch, worker, ["work"], 1)
    await source.operator_actions.cancel(members[2])
    text = await exported(source)
    async with world_on_same(target) as third:
        done = await imported(third, text)
        found = await BatchStore(third.shard, Tally()).get(spec.id)
        assert found
        assert BatchCallback.SUCCESS not in found.spec.callbacks
    assert claim


@contextlib.asynccontextmanager
async def world_on_same(world: StoreWorld) -> AsyncIterator[StoreWorld]:
    shard = Shard.bound(world.shard.client, Keys(f"t{uuid.uuid4().hex[:10]}"))
    async with StoreWorld.on(shard) as found:
        found = found.on_store_time()
        await generation.mark(found.shard, uuid.uuid4().hex)
        yield found
    await forget_keys(shard)


async def test_the_last_line_of_an_export_counts_the_objects_that_it_leaves_out(source: StoreWorld) -> None:
    canceled = await source.enqueue("work", 1)
    await source.operator_actions.cancel(canceled)
    await source.enqueue("jq.webhook", 1)
    await source.redis.hset(source.shard.keys.constraints, "broken", "x")
    assert end_of(await exported(source)) == {
        "lines": {},
        "left_out": {"jobs that are over": 1, "deliveries of webhooks and mails": 1, "damaged": 1},
    }
    await source.redis.hdel(source.shard.keys.constraints, "broken")


async def test_users_and_tokens_never_leave_an_installation_without_an_admin(
    source: StoreWorld, target: StoreWorld
) -> None:
    token = StoredToken("tok1", "ci", frozenset({Scope.PUSH}), (), b"d" * 32, 5, "ada", None)
    await CredentialStore(source.shard).put_tokens([("tok1", None, token)], access_entry=b"\x80")
    (left,) = (await imported(target, await exported(source, has_secrets=True))).left_out
    assert "no user or token would have admin rights" in left.reason


async def test_an_installation_that_cannot_take_it_is_refused(source: StoreWorld, target: StoreWorld) -> None:
    text = await exported(source)
    await loading.begin(target.shard, "a backup")
    with pytest.raises(ConflictError, match=r"not ended: .* before you import"):
        await imported(target, text)
    with pytest.raises(ConflictError, match=r"not ended: .* before you export"):
        await exported(target)
    await loading.end(target.shard)
    await target.redis.delete(target.shard.keys.generation)
    with pytest.raises(NotFoundError, match="start `jqmaster serve` once"):
        await imported(target, text)
    with pytest.raises(NotFoundError, match="no master has ever served shard"):
        await exported(target)


async def test_an_export_of_data_that_were_replaced_meanwhile_is_not_taken_for_whole(
    source: StoreWorld,
) -> None:
    exporting = Exporting(source.shard, job_times(SETTINGS), version="0.1", has_secrets=False)
    lines = exporting.run()
    await anext(lines)
    await source.redis.set(source.shard.keys.generation, "of a restore")
    with pytest.raises(ConflictError, match="run the command again"):
        async for _ in lines:
            pass


async def test_settings_that_this_version_refuses_are_told_by_name(
    source: StoreWorld, target: StoreWorld
) -> None:
    await SettingsStore(source.shard).put(0, {"lease_ms": 1, "of_next_year": 2}, b"\x80", is_access=False)
    done = await imported(target, await exported(source))
    assert {one.id for one in done.left_out} == {"lease_ms", "of_next_year"}
    assert all(one.is_refused for one in done.left_out)


REDIS = Path("/usr/bin/redis-server")


@pytest.mark.skipif(not REDIS.exists(), reason="no redis-server of Debian")
async def test_jobs_move_between_valkey_and_redis(
    source: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(source)
    monkeypatch.setitem(os.environ, "JQMASTER_TEST_SERVER", str(REDIS))
    server = StoreServer()
    server.start()
    try:
        async with world_on(server.url) as target:
            done = await imported(target, text := await exported(source, has_secrets=True))
            assert dict(done.new) == end_of(text)["lines"]
            assert _without_times(await exported(target, has_secrets=True)) == _without_times(text)
    finally:
        server.stop()


async def test_an_export_needs_no_more_rights_than_a_backup(lone_server: StoreServer) -> None:
    client = StoreClient(lone_server.url, connections=4)
    shard = Shard.bound(client, Keys(f"t{uuid.uuid4().hex[:10]}"))
    async with StoreWorld.on(shard) as world:
        await generation.mark(world.shard, uuid.uuid4().hex)
        await fill(world.on_store_time())
        reader = StoreClient(lone_server.backup_url, connections=2)
        exporting = Exporting(Shard(reader, shard.keys), job_times(SETTINGS), version="0.1", has_secrets=True)
        lines = [line async for line in exporting.run()]
        await reader.close()
    assert len(lines) == 21
    await forget_keys(shard)
    await client.close()
