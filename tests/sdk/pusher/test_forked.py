"""Pushers in forked processes, several threads and several event loops: each answer reaches its caller."""

import asyncio
import contextlib
import pickle
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgpack
import pytest
import trustme
import uvloop

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.forking import FORKS, Child
from worker_sdk import AnswerMismatchError, Pusher, SyncPusher, make_job
from worker_sdk.masters.masters import backoff_s
from worker_sdk.pusher.ids import new_job_id

# Python warns about threads when it forks, and tests always have some. This tests that they are harmless.
pytestmark = [pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"), real_time.PROCESSES]

CALLS = 100


@pytest.fixture(params=FORKS)
def fork(request: pytest.FixtureRequest) -> Callable[[], int]:
    return FORKS[request.param]


@pytest.fixture
def telling(master: FakeMaster) -> FakeMaster:
    """Yield a master whose results name their jobs."""

    def result(path: str) -> Any:
        return {"type": "success", "finished_at": "2026-11-21T04:30:00.123Z", "result": path.split("/")[3]}

    master.hooks["result"] = lambda body: (200, result(master.calls[-1][1]), {})
    return master


def strangers(pusher: SyncPusher, calls: int = CALLS) -> list[tuple[str, Any]]:
    """Return answers that belonged to another job."""
    wrong: list[tuple[str, Any]] = []
    for _ in range(calls):
        job_id = new_job_id()
        if (answer := pusher.enqueue("x", id=job_id)) != job_id:
            wrong.append((job_id, answer))
        result = pusher.result(job_id)
        if result is None or result.result != job_id:
            wrong.append((job_id, result))
    return wrong


def test_a_fork_after_a_call_mixes_no_answers_up(telling: FakeMaster, fork: Callable[[], int]) -> None:
    with SyncPusher(telling.url, token=telling.token) as pusher:
        pusher.enqueue("x")
        children = [Child(lambda: strangers(pusher), fork) for _ in range(2)]
        assert strangers(pusher) == []
        assert [child.result() for child in children] == [[], []]
    assert len(telling.jobs) == 1 + 3 * CALLS


def test_children_of_one_moment_make_other_ids(fork: Callable[[], int]) -> None:
    """Children first make an ID. Its last 48 bits are random, whatever the clock says."""
    new_job_id()
    children = [Child(new_job_id, fork) for _ in range(3)]
    made = [new_job_id(), *(child.result() for child in children)]
    assert len({job_id[-12:] for job_id in made}) == 4, made


def test_threads_of_parent_and_child_mix_no_answers_up(telling: FakeMaster) -> None:
    def from_threads() -> list[Any]:
        with ThreadPoolExecutor(4) as threads:
            return [one for wrong in threads.map(lambda _: strangers(pusher, 25), range(4)) for one in wrong]

    with SyncPusher(telling.url, token=telling.token) as pusher:
        from_threads()
        child = Child(from_threads)
        assert from_threads() == []
        assert child.result() == []


def test_a_child_that_leaves_the_block_of_the_pusher_leaves_the_parents_connection_open(
    master: FakeMaster,
) -> None:
    with SyncPusher(master.url, token=master.token) as pusher:
        pusher.enqueue("x")
        before = local_port(pusher)

        def leave() -> None:
            pusher.__exit__(None, None, None)

        Child(leave).result()
        pusher.enqueue("x")
        assert local_port(pusher) == before


def local_port(pusher: SyncPusher) -> Any:
    (client,) = pusher._idle
    assert client._connection is not None
    return client._connection.sock.getsockname()[1]


class SecureMaster(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    ports: list[int]

    def do_POST(self) -> None:
        job = msgpack.unpackb(self.rfile.read(int(self.headers["Content-Length"])))
        self.ports.append(self.client_address[1])
        data = msgpack.packb({"id": job["id"]})
        self.send_response(201)
        self.send_header("Content-Type", "application/msgpack")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the address of a master that serves HTTPS and records each caller's port."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("JQMASTER_CLIENT_CAFILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    SecureMaster.ports = []
    with ThreadingHTTPServer(("127.0.0.1", 0), SecureMaster) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_child_says_no_goodbye_on_the_parents_encrypted_connection(secure: str) -> None:
    with SyncPusher(secure) as pusher:
        pusher.enqueue("x")
        Child(pusher.close).result()
        Child(lambda: pusher.enqueue("x")).result()
        pusher.enqueue("x")
    first, in_child, after = SecureMaster.ports
    assert (after, in_child != first) == (first, True)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_child_leaves_the_connections_of_the_parents_event_loop_alone(
    secure: str, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def in_child(pusher: Pusher) -> None:
        async with pusher:
            await pusher.enqueue("x")

    def runs(work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(work)

    async def in_parent() -> None:
        async with Pusher(secure) as pusher:
            await pusher.enqueue("x")
            await asyncio.to_thread(lambda: Child(lambda: runs(in_child(pusher))).result())
            await pusher.enqueue("x")

    runs(in_parent())
    first, in_the_child, after = SecureMaster.ports
    assert (after, in_the_child != first) == (first, True)


def test_locks_that_another_thread_holds_at_the_fork_do_not_hold_the_child(master: FakeMaster) -> None:
    with SyncPusher([master.url, master.url], token=master.token, max_wait_s=5) as pusher:
        master.script("jobs", 503)
        with pusher._masters._lock:
            child = Child(lambda: pusher.enqueue("x"))
        child.result()
    assert len(master.jobs) == 1


def test_no_two_processes_make_the_same_id(fork: Callable[[], int]) -> None:
    def ids() -> list[str]:
        return [str(make_job("x")["id"]) for _ in range(200)]

    ids()
    children = [Child(ids, fork) for _ in range(8)]
    made = [job_id for child in children for job_id in child.result()] + ids()
    assert len({job_id[15:] for job_id in made}) == len(made), (
        "nor the same random part in another millisecond"
    )


def test_processes_that_were_forked_together_do_not_repeat_together() -> None:
    children = [Child(lambda: backoff_s(10)) for _ in range(6)]
    assert len({child.result() for child in children}) == 6


# --- event loops


def test_a_pusher_outlives_its_event_loop(master: FakeMaster) -> None:
    pusher = Pusher(master.url, token=master.token)
    ids = [asyncio.run(pusher.enqueue("x", n)) for n in range(3)]
    ids += asyncio.run(pusher.enqueue_many([("x", 4), ("x", 5)]))
    asyncio.run(pusher.aclose())
    assert list(master.jobs) == ids


def test_a_pusher_serves_more_event_loops_than_it_has_room_for_calls(master: FakeMaster) -> None:
    """An asyncio semaphore belongs to the loop that first waited for it."""
    pusher = Pusher(master.url, token=master.token)

    async def crowd() -> None:
        await asyncio.gather(*[pusher.enqueue("x") for _ in range(120)])

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: asyncio.run(crowd()), range(2)))
    asyncio.run(crowd())
    assert len(master.jobs) == 360


async def test_aclose_ends_the_connections_of_another_running_loop(master: FakeMaster) -> None:
    pusher = Pusher(master.url, token=master.token)
    has_pushed, may_end = threading.Event(), threading.Event()

    async def elsewhere() -> int:
        await pusher.enqueue("x")
        has_pushed.set()
        await asyncio.to_thread(may_end.wait, 10)
        return pusher._client._http.open_connections()

    other = asyncio.ensure_future(asyncio.to_thread(lambda: asyncio.run(elsewhere())))
    await asyncio.to_thread(has_pushed.wait, 10)
    await pusher.enqueue("x")
    await pusher.aclose()
    may_end.set()
    assert await other == 0
    with pytest.raises(RuntimeError, match="closed"):
        await pusher.enqueue("x")


def test_an_event_loop_that_a_fork_inherited_is_refused(master: FakeMaster) -> None:
    pusher = Pusher(master.url, token=master.token)
    with asyncio.Runner() as runner:
        runner.run(pusher.enqueue("x"))

        def in_child() -> str:
            with contextlib.suppress(RuntimeError):
                return str(runner.run(pusher.enqueue("x")))
            return asyncio.run(pusher.enqueue("x", "anew"))

        assert Child(in_child).result() in master.jobs
        runner.run(pusher.enqueue("x"))
        runner.run(pusher.aclose())
    assert [job["argument"] for job in master.jobs.values()] == [None, "anew", None]


# --- answers that are another job's


def call_of(pusher: Any, what: str, job_id: str) -> Any:
    calls: dict[str, Callable[[], Any]] = {
        "enqueue": lambda: pusher.enqueue("x", id=job_id),
        "bulk": lambda: pusher.enqueue_many([{"name": "x", "id": job_id}]),
        "status": lambda: pusher.status(job_id),
        "cancel": lambda: pusher.cancel(job_id),
        "result": lambda: pusher.result(job_id),
    }
    return calls[what]()


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("what", ["enqueue", "bulk", "status", "cancel", "result"])
async def test_an_answer_about_another_job_is_an_error(master: FakeMaster, what: str, is_async: bool) -> None:
    asked, other = new_job_id(), new_job_id()
    route = {"enqueue": "jobs", "status": asked}.get(what, what)
    if what == "result":
        master.script(route, 200, {}, JQ_Job_Id=other)
    else:
        master.script(
            route,
            200,
            {"id": other, "ids": [other], "state": "ready"} if what != "bulk" else {"ids": [other]},
        )

    async def ask() -> None:
        if is_async:
            async with Pusher(master.url, token=master.token) as pusher:
                await call_of(pusher, what, asked)
        else:
            with SyncPusher(master.url, token=master.token) as sync_pusher:
                await asyncio.to_thread(call_of, sync_pusher, what, asked)

    with pytest.raises(AnswerMismatchError, match=f"{asked}.*{other}") as caught:
        await ask()
    assert (caught.value.asked, caught.value.answered) == ([asked], [other])
    assert caught.value.unknown_ids == ([asked] if what in ("enqueue", "bulk") else [])


def test_a_connection_that_answered_about_another_job_is_not_used_again(master: FakeMaster) -> None:
    with SyncPusher(master.url, token=master.token) as pusher:
        pusher.enqueue("x")
        before = local_port(pusher)
        master.script("jobs", 201, {"id": new_job_id()})
        with pytest.raises(AnswerMismatchError):
            pusher.enqueue("x")
        pusher.enqueue("x")
        assert local_port(pusher) != before


def test_a_call_that_is_interrupted_leaves_no_answer_for_the_next(telling: FakeMaster) -> None:
    class Interrupt(BaseException):
        pass

    with SyncPusher(telling.url, token=telling.token) as pusher:
        pusher.enqueue("x")
        (client,) = pusher._idle
        assert client._connection is not None

        def interrupted() -> Any:
            raise Interrupt

        client._connection.getresponse = interrupted  # type: ignore[method-assign]
        with pytest.raises(Interrupt):
            pusher.enqueue("x")
        assert client._connection is None
        assert strangers(pusher, 5) == []


def test_a_pusher_that_is_sent_to_another_process_says_where_to_make_it(master: FakeMaster) -> None:
    pushers: list[SyncPusher | Pusher] = [SyncPusher(master.url), Pusher(master.url)]
    for pusher in pushers:
        with pytest.raises(TypeError, match="make one in the process that uses it"):
            pickle.dumps(pusher)
