"""The leader's findings become messages: each failure counts once, whatever dies between the steps."""

import json
from collections.abc import Awaitable
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from jqmaster.domain.challenges.challenge import Callback
from jqmaster.domain.challenges.challenge_form import Form
from jqmaster.domain.content.content import full_access
from jqmaster.domain.jobs.triage import Resolution
from jqmaster.domain.namespaces.troubles import NO_TROUBLES
from jqmaster.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    OutcomeUnknownError,
    PreconditionFailedError,
    StaleEpochError,
    StoreUnavailableError,
)
from jqmaster.service.calendars.sources import SourceAnswer
from jqmaster.service.named_objects import Precondition
from jqmaster.store.identity.audit import AuditStore
from jqmaster.store.jobs.enqueue import EnqueueStore
from jqmaster.store.operations.failure_triage import FailureTriageStore
from jqmaster.store.operations.history import CountedFailures
from tests.support import long
from tests.support.calendars import NO_FIELDS, Calendars
from tests.support.notices import FIELDS, Notices
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("M5")


@pytest.fixture
async def notices(world: StoreWorld) -> Notices:
    return Notices(world)


async def begun(notices: Notices, **fields: Any) -> None:
    """Create a notice and evaluate its condition once: whatever happens from now on counts."""
    await notices.put(**fields)
    await notices.round()
    notices.world.pass_ms(10)


@pytest.mark.sized
async def test_thousands_of_failures_in_a_minute_are_one_mail_and_one_more_with_the_total(
    notices: Notices,
) -> None:
    await begun(notices)
    failures = long.size(2_000, 10_000)
    for _ in range(10):
        await notices.fail(failures // 10)
        await notices.rounds(6)
    assert len(await notices.told()) == 1, "within the minute"
    await notices.rounds(320, step_s=10)
    first, last = await notices.told()
    assert first.job.name == "jq.mail"
    assert first.job.created_at_ms - notices.world.now_ms <= 60_000
    assert last.argument["subject"] == f"[jqmaster] {failures:,} jobs failed"
    counted = int(first.argument["subject"].split()[1].replace(",", ""))
    assert f"{failures - counted:,} of these since the last message" in last.argument["text"]
    assert "work: error: no" in last.argument["text"]
    await notices.rounds(700, step_s=10)
    assert len(await notices.told()) == 2


async def test_a_mail_leads_to_the_job_and_to_the_page(notices: Notices) -> None:
    await begun(notices)
    (job_id,) = await notices.fail(1)
    await notices.rounds(14)
    (told,) = await notices.told()
    assert told.argument["to"] == "ops@shop.example"
    assert told.argument["subject"] == "[jqmaster] 1 job failed"
    for text in (told.argument["text"], told.argument["html"]):
        assert f"https://jobs.shop.example/queue/#/job?id={job_id}" in text
        assert "https://jobs.shop.example/queue/#/failures" in text
    log = f"https://logs.example/?job={job_id}&n=1"
    assert f"Log lines: {log}" in told.argument["text"]
    assert log.replace("&", "&amp;") in told.argument["html"]
    assert told.job.tags == ("notice:n",)


async def test_without_any_notice_failures_go_to_mail_to(world: StoreWorld) -> None:
    notices = Notices(world, mail_to=["a@shop.example", "b@shop.example"])
    await notices.round()
    world.pass_ms(10)
    await notices.fail(3)
    await notices.rounds(14)
    assert await notices.by_address() == {
        "a@shop.example": ["[jqmaster] 3 jobs failed"],
        "b@shop.example": ["[jqmaster] 3 jobs failed"],
    }
    # A notice that people define replaces it.
    await notices.put(to=[{"mail": ["c@shop.example"]}], matcher={"field": "name", "op": "eq", "value": "x"})
    await notices.fail(3)
    await notices.rounds(400, step_s=10)
    assert set(await notices.by_address()) == {"a@shop.example", "b@shop.example"}


async def test_without_notices_nothing_is_written(world: StoreWorld) -> None:
    notices = Notices(world)
    await notices.fail(2)
    before = set(await world.redis.keys(f"{world.shard.keys.tag}*"))
    await notices.rounds(60)
    assert set(await world.redis.keys(f"{world.shard.keys.tag}*")) == before
    assert notices.prepared == 0


async def test_a_round_without_findings_writes_nothing(notices: Notices) -> None:
    await begun(notices)
    world = notices.world
    before = await world.redis.hgetall(world.shard.keys.notice_states)
    await notices.rounds(60)
    assert await world.redis.hgetall(world.shard.keys.notice_states) == before


async def test_only_what_the_matcher_selects_is_told(notices: Notices) -> None:
    await begun(notices, matcher={"field": "tags", "op": "eq", "value": "vip"})
    await notices.fail(2, tags=("vip",))
    await notices.fail(5, tags=("other",))
    await notices.rounds(14)
    assert await notices.subjects() == ["2 jobs failed"]


async def test_failed_deliveries_are_no_cause_of_a_notice(notices: Notices) -> None:
    await begun(notices)
    await notices.fail(3, name="jq.mail")
    await notices.rounds(20)
    assert await notices.told() == []


async def test_a_leader_that_dies_before_it_sends_loses_and_doubles_nothing(
    notices: Notices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader is killed after the message is decided and before its deliveries exist, and again after they exist and
    before this is recorded."""
    await begun(notices)
    await notices.fail(7)

    async def dies(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(EnqueueStore, "enqueue", dies)
        with pytest.raises(KeyboardInterrupt):
            await notices.rounds(14)
    assert await notices.told() == []
    await notices.fail(2)
    notices.evaluation = notices.new_evaluation()
    store_put, calls = notices.store.put_states, []

    async def dies_second(*args: Any, **fields: Any) -> bool:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return await store_put(*args, **fields)

    with monkeypatch.context() as patch:
        patch.setattr(notices.store, "put_states", dies_second)
        with pytest.raises(KeyboardInterrupt):
            await notices.rounds(2)
    assert await notices.subjects() == ["7 jobs failed"]
    notices.evaluation = notices.new_evaluation()
    await notices.rounds(310, step_s=10)
    assert await notices.subjects() == ["7 jobs failed", "9 jobs failed"]


async def test_a_former_leader_writes_nothing(notices: Notices) -> None:
    await begun(notices)
    await notices.fail(1)
    old = await notices.world.reelect()
    notices.world.pass_ms(5)
    with pytest.raises(StaleEpochError):
        await notices.evaluation.round(old)
    await notices.rounds(14)
    assert await notices.subjects() == ["1 job failed"]


async def test_many_failures_in_one_millisecond_count_all(
    notices: Notices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jqmaster.store.notices.failed_jobs.PER_READ", 20)
    await begun(notices)
    await notices.fail(95)
    notices.world.pass_ms(1)
    await notices.fail(7)
    await notices.rounds(14)
    assert await notices.subjects() == ["102 jobs failed"]


async def test_a_clock_of_the_store_that_is_set_back_silences_nothing(notices: Notices) -> None:
    await begun(notices)
    await notices.fail(1)
    await notices.rounds(14)
    notices.world.pass_ms(-3_600_000)
    await notices.round()
    notices.world.pass_ms(10)
    await notices.fail(4)
    await notices.rounds(4)
    state = (await notices.store.all()).states["n"]
    assert state.state.incidents[""].count == 5


async def test_new_failure_groups_are_told_once(notices: Notices) -> None:
    await begun(notices, when="new_failure_group", at_most_every_s=10)
    (job_id,) = await notices.fail(1)
    group = CountedFailures("a" * 16, "work", "error", "no", 1, job_id)
    await notices.history.add_failures(1, [group])
    await notices.rounds(14)
    assert await notices.subjects() == ["1 new kind of failure"]
    await notices.history.add_failures(2, [group])
    await notices.rounds(60)
    assert len(await notices.told()) == 1


@pytest.mark.req("P8")
async def test_a_resolved_failure_that_comes_back_is_told_once_for_each_time(notices: Notices) -> None:
    triage = FailureTriageStore(notices.world.shard)
    group_id = "a" * 16
    (job_id,) = await notices.fail(1)

    async def fail(number: int) -> None:
        await notices.history.add_failures(
            number, [CountedFailures(group_id, "work", "error", "no", 1, job_id)]
        )

    async def resolve() -> None:
        resolution = Resolution("ada", notices.world.now_ms, "", ())
        assert await triage.put(group_id, "resolution", resolution, b"")

    await fail(1)
    await begun(notices, when="failure_reopened", at_most_every_s=10)
    await resolve()
    await notices.rounds(14)
    assert await notices.subjects() == []
    for number in (2, 3):
        await fail(number)
        await notices.rounds(40)
    # A second failure is not told again.
    assert await notices.subjects() == ["1 resolved kind of failure came back"]
    await resolve()
    await notices.rounds(14)
    await fail(4)
    await notices.rounds(40)
    assert await notices.subjects() == ["1 resolved kind of failure came back"] * 2


async def test_an_old_backlog_is_told_and_its_end_too(notices: Notices) -> None:
    world = notices.world
    await begun(notices, when="backlog_age", threshold=30, at_most_every_s=10)
    job_ids = await world.enqueue_many(3)

    async def pass_sampled(seconds: int) -> None:
        for _ in range(seconds // 2):
            await notices.history.put_backlog(world.epoch, await notices.history.sample_backlog())
            await notices.rounds(2)

    await pass_sampled(20)
    assert await notices.told() == []
    await pass_sampled(20)
    assert await notices.subjects() == ["Jobs wait too long"]
    await world.operator_actions.cancel_all(job_ids)
    await pass_sampled(20)
    assert await notices.subjects() == ["Jobs wait too long", "Jobs no longer wait too long"]


async def test_faults_of_the_store_are_told_when_they_last(notices: Notices) -> None:
    await begun(notices, when="store_unhealthy", threshold=20)
    notices.store_faults["space"] = "the store is full"
    await notices.rounds(10)
    notices.store_faults.clear()
    await notices.rounds(20)
    assert await notices.told() == []
    notices.store_faults["space"] = "the store is full"
    await notices.rounds(24)
    (told,) = await notices.told()
    assert "the store is full" in told.argument["text"]


@pytest.mark.req("D17")
async def test_an_archive_that_is_behind_is_told_when_logs_wait_for_long(notices: Notices) -> None:
    await begun(notices, when="log_archive_behind", threshold=600, at_most_every_s=10)
    # Without an archive nothing waits, and a log that is due later does not wait, either.
    await notices.rounds(4)
    notices.log_due_ms = notices.world.now_ms + 4_000
    await notices.rounds(4)
    notices.log_due_ms = notices.world.now_ms - 590_000
    await notices.rounds(4)
    assert await notices.told() == []
    await notices.rounds(20)
    (told,) = await notices.told()
    assert told.argument["subject"] == "[jqmaster] Logs wait for the archive"
    assert "a log has waited for 10 min to be archived" in told.argument["text"]
    notices.log_due_ms = None
    await notices.rounds(20)
    assert await notices.subjects() == ["Logs wait for the archive", "Logs no longer wait for the archive"]


@pytest.mark.req("D33")
async def test_a_calendar_that_ends_is_told_until_it_is_renewed(
    notices: Notices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jqmaster.service.notices.lasting_conditions.CALENDARS_EVERY_S", 0.0)
    office = Calendars(notices.world)
    soon, later = (SourceAnswer({}, date(year, 2, 1), None) for year in (2027, 2028))
    office.sources.answer = soon
    country = {**NO_FIELDS, "country": "JP"}
    await office.calendars.put("office", country, who="me")
    await begun(notices, when="calendar_ends", threshold=1, at_most_every_s=10)
    await notices.rounds(10)
    # No definition uses it.
    assert await notices.told() == []
    await office.on("skip_holidays")
    await notices.rounds(10)
    (told,) = await notices.told()
    assert (
        "Calendar office knows holidays until 2027-02-01, and 1 definition uses it" in told.argument["text"]
    )
    office.sources.answer = later
    await office.calendars.put("office", country, who="me")
    await notices.rounds(20)
    assert await notices.subjects() == ["Calendars have to be renewed", "Calendars are renewed"]


async def test_a_lost_worker_and_another_leader_are_told(notices: Notices) -> None:
    world = notices.world
    await notices.put("w", when="worker_lost")
    await begun(notices, when="leader_changed")
    worker = await world.worker()
    await notices.rounds(6)
    world.pass_ms(60_000)
    assert await world.workers.detach_silent(world.epoch, worker, silent_ms=1000)
    await world.reelect()
    await notices.rounds(20)
    assert sorted(await notices.subjects()) == ["1 change of leader", "1 worker detached"]


async def test_one_destination_of_each_way_gets_one_delivery(notices: Notices) -> None:
    to = [
        {"slack": "https://hooks.slack.example/services/secret"},
        {"webhook": "https://x.example/hook?key=k1"},
        {"mail": ["a@shop.example", "b@shop.example"]},
    ]
    await begun(notices, to=to)
    await notices.fail(2)
    await notices.rounds(14)
    told = await notices.told()
    assert sorted(one.job.name for one in told) == ["jq.mail", "jq.mail", "jq.slack", "jq.webhook"]
    for one in told:
        # No job contains a credential: people may replace credentials, and many may view jobs.
        assert b"secret" not in one.job.argument
        assert b"k1" not in one.job.argument
    webhook = json.loads(next(one for one in told if one.job.name == "jq.webhook").argument["body"])
    assert (webhook["type"], webhook["data"]["count"]) == ("notice.first", 2)


async def test_a_test_is_sent_although_the_notice_is_muted(notices: Notices) -> None:
    world = notices.world
    await begun(notices, muted_until=world.now_ms + 3_600_000)
    message_id = await notices.editor.test("n", who="user:ada")
    await notices.round()
    assert await notices.subjects() == ["Test of notice n"]
    shown = await notices.reader.get("n")
    assert [one.id for one in shown.state.recent] == [message_id]
    with pytest.raises(NotFoundError):
        await notices.editor.test("other", who="user:ada")


async def test_an_acknowledged_incident_is_silent(notices: Notices) -> None:
    await begun(notices)
    await notices.fail(1)
    await notices.rounds(14)
    assert await notices.editor.acknowledge("n", None, who="user:ada") == 1
    await notices.fail(5)
    await notices.rounds(320, step_s=10)
    assert len(await notices.told()) == 1
    with pytest.raises(NotFoundError):
        await notices.editor.acknowledge("n", "x", who="user:ada")


@pytest.mark.parametrize("action", ["test", "acknowledge"])
async def test_a_store_that_fails_before_the_audit_entry_leaves_no_doubt_that_the_state_was_changed(
    notices: Notices, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    await begun(notices)
    await notices.fail(1)
    await notices.rounds(14)

    async def away(*_: Any) -> None:
        raise StoreUnavailableError("the store does not answer")

    monkeypatch.setattr(AuditStore, "write", away)
    act: Awaitable[Any] = (
        notices.editor.test("n", who="user:ada")
        if action == "test"
        else notices.editor.acknowledge("n", None, who="user:ada")
    )
    with pytest.raises(OutcomeUnknownError, match="the change was made, but then: the store does not answer"):
        await act
    state = (await notices.reader.get("n")).state
    if action == "test":
        assert [one.asked_by for one in state.pending] == ["user:ada"]
    else:
        assert [one.acknowledged_by for one in state.incidents.values()] == ["user:ada"]


async def test_changes_are_checked_against_what_was_read_and_audited(notices: Notices) -> None:
    await notices.put()
    (etag,) = [one.stored.etag for one in await notices.reader.all()]
    demands = Precondition(match=frozenset({"0" * 16}))
    with pytest.raises(PreconditionFailedError):
        await notices.editor.put("n", {**FIELDS, "description": "x"}, who="user:ada", demands=demands)
    with pytest.raises(PreconditionFailedError):
        await notices.editor.put("n", FIELDS, who="user:ada", demands=Precondition(none_match=frozenset("*")))
    assert not await notices.editor.put("n", FIELDS, who="user:ada")
    assert [one.stored.etag for one in await notices.reader.all()] == [etag]
    await notices.put(to=[{"slack": "https://hooks.slack.example/services/secret"}])
    await notices.editor.mute("n", notices.world.now_ms + 1000, who="user:bob")
    await notices.editor.delete("n", who="user:ada", demands=Precondition(match=frozenset("*")))
    page = await AuditStore(notices.world.shard).page(limit=10, cursor=None)
    assert [entry.action for entry in page.entries] == [
        "notice.delete",
        "notice.mute",
        "notice.put",
        "notice.put",
    ]
    assert "secret" not in str(page.entries)
    assert await notices.world.redis.exists(notices.world.shard.keys.notice_states) == 0


async def test_there_are_no_more_notices_than_the_limit(
    notices: Notices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jqmaster.store.notices.notices.MAX_NOTICES", 2)
    await notices.put("a")
    await notices.put("b")
    with pytest.raises(ConflictError) as refused:
        await notices.put("c")
    assert refused.value.code == "too_many_notices"


async def test_a_notice_that_is_made_again_begins_anew(notices: Notices) -> None:
    await begun(notices)
    await notices.fail(3)
    await notices.rounds(4)
    await notices.editor.delete("n", who="user:ada")
    await notices.put()
    await notices.rounds(20)
    assert await notices.told() == []


async def test_a_damaged_notice_silences_no_other(notices: Notices) -> None:
    world = notices.world
    await notices.put("broken")
    await begun(notices)
    await world.redis.hset(world.shard.keys.notices, "broken", b"0" * 16 + b"\xc1")
    await world.redis.hset(world.shard.keys.notice_states, "n", b"0" * 16 + b"\xc1")
    await notices.fail(1)
    await notices.rounds(14)
    assert await notices.subjects() == ["1 job failed"]


@pytest.mark.req("P10")
async def test_people_are_reminded_of_questions_that_nobody_has_answered(notices: Notices) -> None:
    world = notices.world
    await begun(notices, when="challenge_waiting", at_most_every_s=60)
    waiting = [
        await world.awaiting(form=Form(title), remind_ms=30_000, wait_ms=3_600_000, argument=title)
        for title in ("Refund order 1?", "Refund order 2?")
    ]
    await world.awaiting(form=Form("Nobody is reminded"))
    await world.awaiting(form=Form("Not yet"), remind_ms=3_000_000, wait_ms=3_600_000)
    _, _, answered = await world.awaiting(form=Form("Answered"), remind_ms=30_000)
    await notices.rounds(20)
    assert await notices.told() == []
    callback = Callback("application/json", b"{}")
    await world.challenges.take(answered, callback, b"x", is_verified=True)
    await notices.rounds(22)
    (told,) = await notices.told()
    assert told.argument["subject"] == "[jqmaster] 2 questions wait for an answer"
    for _, job, request in waiting:
        url = f"https://jobs.shop.example/queue/callbacks/{request.text}"
        assert f"  answer: {url}" in told.argument["text"]
        assert f'href="{url}"' in told.argument["html"]
        assert f"/queue/#/job?id={job.job_id}" in told.argument["text"]
    assert "work: Refund order 1?, until " in told.argument["text"]
    assert "Answered" not in told.argument["text"]
    # Each message is sent once, also under another leadership.
    notices.evaluation = notices.new_evaluation()
    await notices.rounds(120, step_s=10)
    assert len(await notices.told()) == 1


@pytest.mark.req("P10")
async def test_a_question_that_was_answered_meanwhile_has_no_link(notices: Notices) -> None:
    world = notices.world
    await begun(notices, when="challenge_waiting", to=[{"webhook": "https://hooks.example/x"}])
    _, job, request = await world.awaiting(form=Form("Go on?"), remind_ms=0)
    _, other, waiting = await world.awaiting(form=Form("Stop?"), remind_ms=0)
    await notices.rounds(4)
    await world.challenges.take(request, Callback("", b"{}"), b"x", is_verified=True)
    await notices.rounds(14)
    (told,) = await notices.told()
    lines = json.loads(told.argument["body"])["data"]["lines"]
    assert {line["job_id"]: line.get("url") for line in lines} == {
        job.job_id: None,
        other.job_id: f"https://jobs.shop.example/queue/callbacks/{waiting.text}",
    }


@pytest.mark.req("P10")
async def test_a_question_is_not_quoted_where_content_is_redacted(notices: Notices) -> None:
    notices.access = full_access(["argument.card"])
    notices.evaluation = notices.new_evaluation()
    await begun(notices, when="challenge_waiting")
    await notices.world.awaiting(form=Form("Charge card 4711?"), remind_ms=0)
    await notices.rounds(14)
    (told,) = await notices.told()
    assert "4711" not in told.argument["text"]
    assert "work: waits for an answer, until " in told.argument["text"]


@pytest.mark.req("S7")
async def test_hostile_names_of_jobs_and_errors_are_text_in_a_mail(notices: Notices) -> None:
    await begun(notices)
    name = "<img src=x onerror=alert(1)>&\"'"
    await notices.fail(1, name=name, message="</td><script>alert(2)</script>\r\nBcc: all@shop.example")
    await notices.rounds(14)
    (told,) = await notices.told()
    html = told.argument["html"]
    for tag in ("<img", "<script", "</td><"):
        assert tag not in html
    assert "&lt;img src=x onerror=alert(1)&gt;&amp;" in html
    assert name in told.argument["text"]
    assert "\n" not in told.argument["subject"]
    assert "\r" not in told.argument["subject"]


@pytest.mark.parametrize("kind", ["condition", "notice", "message"])
async def test_a_notice_that_fails_stops_no_other(
    notices: Notices, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The fault may be in the look at a condition, in the memory of a notice, or in the making of a message."""
    await begun(notices)
    await notices.put("bad", when="worker_lost" if kind == "condition" else "job_failed")
    await notices.round()
    evaluation = notices.evaluation
    if kind == "condition":
        monkeypatch.delitem(evaluation._momentary._looks, "worker_lost")
    else:
        victim = evaluation._sender if kind == "message" else evaluation
        name = "send" if kind == "message" else "_take"
        usual = getattr(victim, name)

        def fail_for_one(notice: Any, *rest: Any) -> Any:
            if notice.name == "bad":
                raise KeyError("unlisted")
            return usual(notice, *rest)

        monkeypatch.setattr(victim, name, fail_for_one)
    notices.world.pass_ms(10)
    await notices.fail(1)
    await notices.rounds(14)
    assert [told.job.tags for told in await notices.told()] == [("notice:n",)]


async def test_a_duty_that_fails_is_told_and_its_end_as_well(notices: Notices) -> None:
    await begun(notices, when="duty_failing", threshold=20)
    notices.duty_faults = {"log_archiver.rounds": "log_archiver.rounds fails (KeyError: 'x')"}
    await notices.rounds(40)
    notices.duty_faults = {}
    await notices.rounds(330, step_s=10)
    first, last = await notices.told()
    assert first.argument["subject"] == "[jqmaster] Duties of a master fail"
    assert "log_archiver.rounds fails" in first.argument["text"]
    assert last.argument["subject"] == "[jqmaster] The duties of the master work again"


@pytest.mark.req("D29")
async def test_a_quota_that_is_nearly_used_up_is_told_and_its_end_as_well(notices: Notices) -> None:
    await begun(notices, when="quota_nearly_used", threshold=20)
    notices.quotas = {"waiting_jobs": "waiting_jobs: 88 % of 100 are used"}
    await notices.rounds(40)
    notices.quotas = {}
    await notices.rounds(330, step_s=10)
    first, last = await notices.told()
    assert first.argument["subject"] == "[jqmaster] A quota of the namespace is nearly used up"
    assert "waiting_jobs: 88 % of 100 are used" in first.argument["text"]
    assert last.argument["subject"] == "[jqmaster] The quotas of the namespace have room again"


@pytest.mark.req("D29")
@pytest.mark.parametrize(
    ("when", "began", "ended"),
    [
        ("store_down", "Stores of namespaces are down", "The stores of namespaces work again"),
        ("namespace_down", "Namespaces are not served", "The namespaces are served again"),
        ("move_failed", "Moves of namespaces have failed", "No failed move of a namespace is left"),
    ],
)
async def test_each_trouble_of_the_installation_is_told_once_by_name_and_so_is_its_end(
    notices: Notices, when: str, began: str, ended: str
) -> None:
    await begun(notices, when=when, threshold=20, group_by="name")
    part = {"store_down": "stores", "namespace_down": "namespaces", "move_failed": "moves"}[when]
    both = {"b": "b: the reason of b", "c": "c: the reason of c"}
    notices.troubles = replace(NO_TROUBLES, **{part: both})
    await notices.rounds(400, step_s=10)
    assert [one.argument["text"].count("the reason of") for one in await notices.told()] == [1, 1]
    notices.troubles = replace(NO_TROUBLES, **{part: {"c": both["c"]}})
    await notices.rounds(400, step_s=10)
    first, second, last = await notices.told()
    assert {one.argument["subject"] for one in (first, second)} == {
        f"[jqmaster] {began} ({name})" for name in both
    }
    assert last.argument["subject"] == f"[jqmaster] {ended} (b)"


@pytest.mark.req("D29")
async def test_notices_about_the_installation_are_refused_in_a_further_namespace(world: StoreWorld) -> None:
    notices = Notices(world, is_of_installation=False)
    with pytest.raises(InvalidError) as error:
        await notices.put(when="store_down")
    assert error.value.errors[0].loc == ("when",)
    assert "create this notice at the path without a namespace" in error.value.errors[0].msg
