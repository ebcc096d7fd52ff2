"""The clients shared by a process's tasks: used from threads, loops, forked processes and signal handlers."""

import asyncio
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.forking import Child
from tests.support.interrupts import interrupted
from tests.support.ports import free_port
from worker_sdk import SyncPusher, Tasks, UnavailableError, Worker, configure
from worker_sdk.tasks.client import process_pushers
from worker_sdk.worker.context import running_job

if TYPE_CHECKING:
    from worker_sdk import Context

pytestmark = real_time.WORKER

tasks = Tasks()


@tasks.task("double")
async def double(number: int) -> int:
    return 2 * number


@pytest.fixture(autouse=True)
def _unconfigured() -> Iterator[None]:
    yield
    configure()


@pytest.fixture
def configured(master: FakeMaster) -> FakeMaster:
    configure(url=master.url, token=master.token)
    return master


@pytest.mark.req("S8")
def test_tasks_find_the_master_in_the_environment_or_the_configuration(
    master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JQMASTER_URL", f"{master.url} http://127.0.0.1:1")
    monkeypatch.setenv("JQMASTER_TOKEN", master.token)
    double.enqueue(1)
    first = process_pushers.get()
    assert process_pushers.get() is first
    configure(url=[master.url], token=master.token)
    double.enqueue(2)
    assert process_pushers.get() is not first
    monkeypatch.setenv("JQMASTER_URL", "http://127.0.0.1:1")
    double.enqueue(3)  # the configuration takes precedence
    Tasks(master=master.url, token=master.token).task("other")(double.function).enqueue(4)
    assert master.count("/api/jobs") == 4


@pytest.mark.req("S8")
@pytest.mark.parametrize("is_in_job", [False, True])
def test_tasks_with_a_master_of_their_own_wait_as_all_others_do(
    is_in_job: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoTimeLeft(Exception):
        pass

    def pause(seconds: float) -> None:
        raise NoTimeLeft

    monkeypatch.setattr("worker_sdk.pusher.sync_client.time.sleep", pause)
    own = Tasks(master=f"http://127.0.0.1:{free_port()}").task("double")(double.function)
    running = running_job.set(cast("Context", object()) if is_in_job else None)
    try:
        for max_wait_s, told in ((None, "10 s"), (3, "3 s")):
            if max_wait_s is not None:
                # Tasks that exist already follow.
                configure(max_wait_s=max_wait_s)
            with pytest.raises(NoTimeLeft):
                own.enqueue(1)
            # A handler waits longer than a web request may.
            assert f"for up to {'60 s' if is_in_job else told} more" in caplog.messages[-1]
    finally:
        running_job.reset(running)


def test_an_error_of_a_call_hides_no_other_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker_sdk.masters.blocking_client.check_variables", _refuse)
    with (
        SyncPusher("http://127.0.0.1:1") as pusher,
        pytest.raises(ValueError, match="no such variable") as raised,
    ):
        pusher.enqueue("double", {"number": 1})
    assert raised.value.__context__ is None


def _refuse() -> None:
    raise ValueError("JQMASTER_URI: no such variable")


def test_workers_and_pushers_are_configured_too(configured: FakeMaster) -> None:
    worker = Worker()
    assert (worker.master, worker.token) == (configured.url, configured.token)
    assert Worker("http://127.0.0.1:1").master == "http://127.0.0.1:1"


def test_a_token_without_its_master_is_refused() -> None:
    with pytest.raises(TypeError, match="give token only together with master"):
        Tasks(token="x")


def test_threads_share_the_clients(configured: FakeMaster) -> None:
    ids: list[str] = []

    def push() -> None:
        ids.extend(double.enqueue(n).id for n in range(10))

    threads = [threading.Thread(target=push) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 80


def test_a_forked_process_uses_connections_and_ids_of_its_own(configured: FakeMaster) -> None:
    double.enqueue(0)

    def push() -> list[str]:
        return [double.enqueue(n).id for n in range(20)]

    child = Child(push)
    own, others = push(), child.result()
    assert len({*own, *others}) == 40


def test_each_event_loop_has_connections_of_its_own(configured: FakeMaster) -> None:
    async def push() -> str:
        job_id = (await double.aenqueue(1)).id
        process_pushers.get().pusher()._client.drop_idle()
        await asyncio.sleep(0)  # the connection closes
        return job_id

    assert len({asyncio.run(push()) for _ in range(3)}) == 3  # the previous loop is closed


def test_a_handler_of_signals_may_enqueue_while_a_call_is_under_way(configured: FakeMaster) -> None:
    # The first call imports what the others use, and no module can be imported in the midst of its own import.
    double.enqueue(0)
    inside: list[str] = []
    with interrupted(lambda: inside.append(double.enqueue(1).id), every_s=0.005):
        ids = [double.enqueue(2).id for _ in range(200)]
    assert inside
    assert len({*ids, *inside}) == 200 + len(inside)


@pytest.mark.req("M1")
async def test_a_call_that_no_master_answers_raises_and_names_the_job() -> None:
    configure(url=f"http://127.0.0.1:{free_port()}", max_wait_s=0.1)
    job = double.to_job(1)

    def calls() -> list[Any]:
        return [
            lambda: double.enqueue(1),
            lambda: double.many([job]),
            lambda: double.handle(job.id).get(timeout=0),
            lambda: double.handle(job.id).refresh(),
            lambda: double.handle(job.id).cancel(),
        ]

    for call in calls():
        with pytest.raises(UnavailableError):
            await asyncio.to_thread(call)
    with pytest.raises(UnavailableError) as raised:
        await double.amany([job])
    assert raised.value.job_ids == [job.id]
    for pending in (double.aenqueue(1), double.handle(job.id).aget(0), double.handle(job.id).acancel()):
        with pytest.raises(UnavailableError):
            await pending
    await process_pushers.get().stop()
