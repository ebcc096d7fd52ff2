"""All kinds of objects that operators create under a name share preconditions, checks and errors."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from jqmaster.errors import OverloadedError
from jqmaster.service.events import intake
from jqmaster.service.notices import editor as notice_editor
from jqmaster.store.calendars.calendars import CalendarOutcome, CalendarStore
from jqmaster.store.constraints.constraints import ConstraintStore
from jqmaster.store.definitions.definitions import DefinitionStore
from jqmaster.store.events.events import EventStore, StaleDefinitions
from jqmaster.store.jobs.enqueue import EnqueueStore
from jqmaster.store.jobs.placement import StaleConstraints
from jqmaster.store.namespaces.namespaces import NamespaceStore
from jqmaster.store.notices.notices import NoticeStore
from jqmaster.store.targets.targets import TargetStore
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api, master_on
from tests.support.server import StoreServer

pytestmark = [pytest.mark.req("J11"), real_time.MASTER]

JOB: Final = {"name": "report"}


@dataclass(frozen=True)
class Kind:
    """A kind of named objects. `one`, `other`: the bodies of two requests with different effects. `overtaken`: methods
    that write, and what they return if somebody else was faster. `deletion`: the query of a deletion."""

    noun: str
    one: dict[str, Any]
    other: dict[str, Any]
    overtaken: tuple[tuple[type, str, Any], ...]
    deletion: str = ""
    # Requests after which the object can be deleted.
    before_deletion: tuple[str, ...] = field(default=())

    @property
    def path(self) -> str:
        return f"/api/{self.noun}s/one"


KINDS: Final = (
    Kind(
        "constraint",
        {"matcher": {"field": "name", "op": "eq", "value": "report"}, "concurrency": 1},
        {"matcher": {"field": "name", "op": "eq", "value": "report"}, "concurrency": 2},
        ((ConstraintStore, "change", False),),
    ),
    Kind(
        "definition",
        {"job": JOB, "schedule": {"daily_at": "02:30"}},
        {"job": JOB, "schedule": {"daily_at": "02:31"}},
        ((DefinitionStore, "change", False),),
    ),
    Kind(
        "notice",
        {"when": "job_failed", "to": [{"slack": "https://hooks.slack.example/services/a"}]},
        {"when": "job_failed", "to": [{"slack": "https://hooks.slack.example/services/a"}], "threshold": 2},
        ((NoticeStore, "put", False),),
    ),
    Kind(
        "target",
        {"names": ["report"], "url": "https://shop.example/jobs"},
        {"names": ["report"], "url": "https://shop.example/reports"},
        ((TargetStore, "put", False),),
    ),
    Kind(
        "calendar",
        {"dates": [{"date": "2027-01-01", "name": "New Year's Day"}]},
        {"dates": [{"date": "2027-01-02", "name": "New Year's Day"}]},
        ((CalendarStore, "change", CalendarOutcome.CHANGED),),
    ),
    Kind(
        "namespace",
        {"title": "One"},
        {"title": "Another"},
        ((NamespaceStore, "put", None), (NamespaceStore, "remove", False)),
        "?confirm=one",
        ("close",),
    ),
)  # fmt: skip


@pytest.fixture
async def api(store: StoreServer, tmp_path: Path) -> AsyncIterator[Api]:
    async with master_on(store.url, data_dir=tmp_path) as (_, one):
        yield one


def overtake(monkeypatch: pytest.MonkeyPatch, owner: type, method: str, answer: Any) -> None:
    """Let a method of a store always answer this, or raise it."""

    async def always(*args: object, **options: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(owner, method, always)


async def refused(api: Api, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str, str]:
    """Return the status, code and detail of a refused call."""
    status, problem = await api.call(method, path, body, **headers)
    return status, problem["code"], problem["detail"]


@for_each("kind", [pytest.param(kind, id=kind.noun) for kind in KINDS])
async def test_each_kind_obeys_the_preconditions_of_a_call(api: Api, kind: Kind) -> None:
    noun, path = kind.noun, kind.path
    absent = (412, "precondition_failed", f"{noun} one does not exist")
    for demanded in ("*", '"0123456789abcdef"'):
        assert await refused(api, "PUT", path, kind.one, **{"If-Match": demanded}) == absent
    deletion = path + kind.deletion
    assert await refused(api, "DELETE", deletion, None, **{"If-Match": "*"}) == absent

    status, made = await api.call("PUT", path, kind.one, **{"If-None-Match": "*"})
    assert status == 201, made
    exists = (412, f"{noun}_exists", f"{noun} one exists")
    response = await api.http.get(path)
    etag = response.headers["etag"]
    for demanded in ("*", etag, f"W/{etag}", f'"other", {etag}'):
        assert await refused(api, "PUT", path, kind.other, **{"If-None-Match": demanded}) == exists
    changed = (412, "precondition_failed", f"{noun} one was changed by somebody else; read it again")
    for demanded in ('"other"', '"*"', f"W/{etag}"):
        assert await refused(api, "PUT", path, kind.other, **{"If-Match": demanded}) == changed
        assert await refused(api, "DELETE", deletion, None, **{"If-Match": demanded}) == changed
    status, code, detail = await refused(api, "PUT", path, kind.other, **{"If-Match": "other"})
    assert (status, code, detail) == (400, "unparsable", "If-Match must hold entity tags in quotes, or *")

    for demanded in (f'"other", {etag}', "*"):
        assert (await api.call("PUT", path, kind.other, **{"If-Match": demanded}))[0] == 200
    assert (await api.http.get(path)).headers["etag"] != etag


@for_each("kind", [pytest.param(kind, id=kind.noun) for kind in KINDS])
async def test_each_kind_accepts_only_the_name_in_the_path(api: Api, kind: Kind) -> None:
    status, problem = await api.call("PUT", kind.path, {**kind.one, "name": "two"})
    assert (status, problem["code"]) == (422, "invalid")
    assert problem["detail"] == "the name differs from the one in the path"
    assert problem["errors"] == [{"loc": ["name"], "msg": "must be one"}]
    assert (await api.call("PUT", kind.path, {**kind.one, "name": "one"}))[0] == 201


@for_each("kind", [pytest.param(kind, id=kind.noun) for kind in KINDS])
async def test_a_change_that_others_always_overtake_is_refused_as_overload(
    api: Api, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await api.call("PUT", kind.path, kind.one))[0] == 201
    for act in kind.before_deletion:
        assert (await api.call("POST", f"{kind.path}/{act}"))[0] == 200
    for owner, method, answer in kind.overtaken:
        overtake(monkeypatch, owner, method, answer)
    for method, path, body in (("PUT", kind.path, kind.other), ("DELETE", kind.path + kind.deletion, None)):
        status, problem = await api.call(method, path, body)
        assert (status, problem["code"]) == (503, OverloadedError.code), method
        assert problem["detail"] == f"{kind.noun} one changes faster than it can be followed"
    # A request that changes nothing need not overtake anybody.
    assert (await api.call("PUT", kind.path, kind.one))[0] == 200


@pytest.mark.parametrize(
    ("owner", "method", "fault", "call", "detail"),
    [
        (EnqueueStore, "enqueue", StaleConstraints(), ("POST", "/api/jobs", JOB), "the constraints change too fast"),
        (EventStore, "send", StaleDefinitions(), ("POST", "/api/events", {"event_type": "sold"}),
         "definitions change too fast"),
        (NoticeStore, "put_states", False, ("POST", "/api/notices/one/test", None), "notice one changes faster"),
        (NoticeStore, "put_states", False, ("POST", "/api/notices/one/acknowledge", {}), "notice one changes faster"),
    ],
)  # fmt: skip
async def test_a_healthy_store_is_not_called_unavailable(
    api: Api,
    owner: type,
    method: str,
    fault: Any,
    call: tuple[str, str, Any],
    detail: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (await api.call("PUT", "/api/notices/one", KINDS[2].one))[0] == 201
    overtake(monkeypatch, owner, method, fault)
    status, code, told = await refused(api, *call)
    assert (status, code) == (503, OverloadedError.code)
    assert told.startswith(detail)


async def test_tests_that_wait_to_be_sent_are_an_overload(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await api.call("PUT", "/api/notices/one", KINDS[2].one))[0] == 201
    monkeypatch.setattr(notice_editor, "MAX_PENDING_TESTS", 0)
    assert await refused(api, "POST", "/api/notices/one/test") == (
        503, OverloadedError.code, "earlier tests have not been sent yet",
    )  # fmt: skip


async def test_events_of_which_some_are_stored_end_unknown(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MAX_PER_CALL", 1)
    send, calls = EventStore.send, 0

    async def only_first(self: EventStore, *args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise StaleDefinitions
        return await send(self, *args, **options)

    monkeypatch.setattr(EventStore, "send", only_first)
    events = [{"event_type": "sold"}] * 2
    status, code, detail = await refused(api, "POST", "/api/events", {"events": events})
    assert (status, code) == (503, "outcome_unknown")
    assert "definitions change too fast" in detail
