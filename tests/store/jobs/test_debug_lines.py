"""At `log_level` debug, the store's part tells about pushed jobs and connections."""

import logging

import pytest

from jqmaster.domain.jobs.job import JobSpec
from jqmaster.errors import StoreUnavailableError
from jqmaster.store.jobs import enqueue
from jqmaster.store.jobs.enqueue_outcomes import (
    Accepted,
    BacklogFull,
    BatchClosed,
    Conflict,
    IdTaken,
    NotUnique,
    Outcome,
    PredecessorRefused,
    PushExpired,
    PushRefusal,
    TooFast,
)
from jqmaster.store.link.client import StoreClient
from tests.support.ports import free_port
from tests.support.server import StoreServer
from tests.support.store import StoreWorld

TOLD: list[tuple[Outcome, str]] = [
    (Accepted.NEW, "accepted"),
    (Accepted.KNOWN, "pushed again, and known"),
    (IdTaken("i"), "refused: the ID i is taken"),
    (TooFast(5), "refused: the quota of the namespace allows 5 pushed jobs a second"),
    (BacklogFull("g"), "refused: a constraint lets no more of these jobs wait (gate g)"),
    (NotUnique("h", Conflict.EXISTING), "not created: job h holds the uniqueness key (existing)"),
    (BatchClosed("b", is_none=False), "refused: batch b: the batch is complete or canceled"),
    (PredecessorRefused("p", is_none=False), "refused: job p is over and did not succeed"),
    (PushExpired(5), f"refused: {PushExpired(5).detail()}"),
]


def test_each_outcome_of_a_push_has_words(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "jqmaster.store.jobs.enqueue")
    specs = [JobSpec(f"j{n}", "work", b"\xc0") for n in range(len(TOLD))]
    enqueue._log(specs, [outcome for outcome, _ in TOLD])
    assert caplog.messages == [f"job j{n} (work): {words}" for n, (_, words) in enumerate(TOLD)]
    kinds: list[type] = [Accepted, *PushRefusal.__subclasses__()]
    assert {type(outcome).__name__ for outcome, _ in TOLD} == {kind.__name__ for kind in kinds}


async def test_a_pushed_job_is_told(world: StoreWorld, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "jqmaster.store.jobs.enqueue")
    job_id = await world.enqueue(name="mail")
    assert f"job {job_id} (mail): accepted" in caplog.messages


async def test_connections_are_told_with_their_address(
    lone_server: StoreServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "jqmaster.store.link.connection")
    client = StoreClient(lone_server.url, connections=2)
    await client.command("PING")
    await client.close()
    away = StoreClient(f"redis://:secret@127.0.0.1:{free_port()}", connections=2)
    with pytest.raises(StoreUnavailableError):
        await away.command("PING")
    await away.close()
    assert any(text.startswith("a new connection to the store at ") for text in caplog.messages)
    assert any(text.startswith("no connection to the store at 127.0.0.1:") for text in caplog.messages)
    assert "secret" not in caplog.text
