"""Job logs: lines from handlers, isolated handlers and commands arrive in order."""

import asyncio
import logging
import logging.config
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.sdk import handlers
from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.forking import Child
from tests.support.waiting import wait_until
from worker_sdk import Context, Tasks, Worker
from worker_sdk.worker import endings, job_log, log_sender
from worker_sdk.worker.run import JobRun

pytestmark = [pytest.mark.req("D17"), real_time.WORKER]

logger = logging.getLogger("tests.of.logs")


class Keeper:
    """The master's log keeper: level and text of each line, by job."""

    def __init__(self, master: FakeMaster) -> None:
        self.lines: dict[str, list[tuple[str, str]]] = {}
        self.seqs: dict[str, list[int]] = {}
        self.calls = 0
        self.stale: list[str] = []
        master.hooks["logs"] = self._keep

    def _keep(self, body: Any) -> Any:
        self.calls += 1
        job_id = ""
        for entry in body["entries"]:
            job_id = entry.get("job_id", job_id)
            self.lines.setdefault(job_id, []).append((entry["level"], entry["text"]))
            self.seqs.setdefault(job_id, []).append(entry["seq"])
        return 200, {"accepted": len(body["entries"]), "dropped": 0, "stale": self.stale}, {}

    async def of(self, job: Any, count: int) -> list[tuple[str, str]]:
        """Return a job's lines once there are enough."""
        await wait_until(lambda: len(self.lines.get(job["job_id"], [])) >= count, what="the lines")
        return self.lines[job["job_id"]]


async def test_lines_of_all_loggers_arrive_in_order_with_their_levels(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    keeper = Keeper(master)

    @worker.handler("async")
    async def write(argument: object, ctx: Context) -> None:
        ctx.logger.debug("begun %s", 1)
        logger.warning("by another")
        await asyncio.gather(*(note(n) for n in range(2)))

    async def note(number: int) -> None:
        logger.error("in a task of its own")

    @worker.handler("sync")
    def fail(argument: object) -> None:
        logger.critical("before it fails")
        raise ValueError("no")

    await up()
    job, failed = await master.run("async"), await master.run("sync")
    assert await keeper.of(job, 4) == [
        ("debug", "begun 1"),
        ("warning", "tests.of.logs: by another"),
        ("error", "tests.of.logs: in a task of its own"),
        ("error", "tests.of.logs: in a task of its own"),
    ]
    lines = await keeper.of(failed, 2)
    assert lines[0] == ("critical", "tests.of.logs: before it fails")
    # The worker's own line about the failure has the traceback.
    assert lines[1][0] == "error"
    assert "ValueError: no" in lines[1][1]
    assert keeper.seqs[job["job_id"]] == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["async", "isolated"])
async def test_masters_have_lines_of_an_attempt_before_they_hear_that_it_failed(
    kind: str, master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    Keeper(master)

    @worker.handler("async")
    async def fail(argument: object, ctx: Context) -> None:
        raise ValueError("at once")

    worker.handler("isolated", isolated=True)(handlers.isolated_fail)
    await up()
    job = await master.run(kind, "value")
    assert (await wait_until(lambda: master.result(job["job_id"])))["type"] == "failure"
    paths = [path.rpartition("/")[2] for _, path, _ in master.calls]
    assert paths.index("logs") < paths.index("results")


@pytest.mark.parametrize("fault", ["refuses", "does not answer"])
async def test_a_failure_waits_a_moment_for_a_master_that_takes_no_lines_and_no_longer(
    fault: str, master: FakeMaster, worker: Worker, up: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault == "refuses":
        # The answer ends the wait, however long that could be.
        monkeypatch.setattr(endings, "LOG_PATIENCE_S", 1_000.0)
        master.hooks["logs"] = lambda _: (503, {"code": "store_unavailable", "detail": "away"}, {})
    else:
        monkeypatch.setattr(endings, "LOG_PATIENCE_S", 0.05)
        monkeypatch.setattr(log_sender.LogSender, "_send", lambda *_: asyncio.Event().wait())

    @worker.handler("fail")
    async def fail(argument: object, ctx: Context) -> None:
        raise ValueError("at once")

    await up()
    job = await master.run("fail")
    assert (await wait_until(lambda: master.result(job["job_id"])))["type"] == "failure"


async def test_a_flood_makes_few_calls_and_a_long_line_is_cut(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    keeper = Keeper(master)

    @worker.handler("flood")
    def flood(argument: int, ctx: Context) -> None:
        for number in range(argument):
            ctx.logger.info("line %d", number)
        ctx.logger.info("x" * 1_000_000)

    await up()
    job = await master.run("flood", 6_000)
    lines = await keeper.of(job, 6_001)
    assert [text for _, text in lines[:-1]] == [f"line {n}" for n in range(6_000)]
    assert lines[-1][1].endswith("x … (cut: 1,000,000 characters)")
    assert keeper.calls < 50


async def test_results_do_not_wait_for_logs_and_the_oldest_lines_go_while_no_master_takes_them(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_sender, "MAX_HELD_LINES", 10)
    master.script("logs", 503, {"code": "store_unavailable", "detail": "away"})
    keeper = Keeper(master)

    @worker.handler("many")
    async def many(argument: object, ctx: Context) -> None:
        ctx.logger.info("first")
        await wait_until(lambda: any(path.endswith("/logs") for _, path, _ in master.calls), what="a call")
        for number in range(100):
            ctx.logger.info("line %d", number)

    await up()
    job = await master.run("many")
    assert (await wait_until(lambda: master.result(job["job_id"])))["type"] == "success"
    lines = await keeper.of(job, 11)
    # The failed call is repeated, and the gap in the numbers shows what is missing.
    assert [text for _, text in lines] == ["first", *(f"line {n}" for n in range(90, 100))]
    assert keeper.seqs[job["job_id"]] == [1, *range(92, 102)]


async def test_nothing_more_is_sent_of_a_stale_claim(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    keeper = Keeper(master)
    more = asyncio.Event()

    @worker.handler("stale")
    async def stale(argument: object, ctx: Context) -> None:
        ctx.logger.info("first")
        await more.wait()
        ctx.logger.info("second")

    await up()
    job = await master.run("stale")
    keeper.stale = [job["job_id"]]
    await keeper.of(job, 1)
    more.set()
    await wait_until(lambda: master.result(job["job_id"]))
    keeper.stale = []
    other = await master.run("stale")
    await keeper.of(other, 2)
    assert [text for _, text in keeper.lines[job["job_id"]]] == ["first"]


async def test_a_master_without_logs_is_left_alone(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    master.hooks["logs"] = lambda body: (404, {"code": "not_found", "detail": "no such route"}, {})

    @worker.handler("quiet")
    async def quiet(argument: object, ctx: Context) -> None:
        ctx.logger.info("nobody keeps it")

    await up()
    for _ in range(3):
        job = await master.run("quiet")
        assert (await wait_until(lambda: master.result(job["job_id"])))["type"] == "success"  # noqa: B023
    await wait_until(lambda: any(path.endswith("/logs") for _, path, _ in master.calls), what="a call")


async def test_a_worker_may_send_no_logs(master: FakeMaster, worker: Worker, up: Callable[[], Any]) -> None:
    keeper = Keeper(master)
    worker.job_logs = False

    @worker.handler("off")
    async def off(argument: object, ctx: Context) -> None:
        ctx.logger.warning("here")
        assert job_log.running_log.get() is None

    # Other tests' workers may run in this process.
    before = set(job_log._installed.users)
    await up()
    assert set(job_log._installed.users) <= before
    job = await master.run("off")
    assert (await wait_until(lambda: master.result(job["job_id"])))["type"] == "success"
    assert keeper.calls == 0


@pytest.mark.usefixtures("kept_root_logger")
async def test_lines_arrive_again_after_logging_was_configured_anew(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    keeper = Keeper(master)

    @worker.handler("async")
    async def write(argument: object) -> None:
        logger.warning("here")

    await up()
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": False, "root": {"handlers": []}})
    assert job_log._installed.handler not in logging.getLogger().handlers
    beats = len(master.beats)
    await wait_until(lambda: len(master.beats) >= beats + 2)
    job = await master.run("async")
    assert await keeper.of(job, 1) == [("warning", "tests.of.logs: here")]


@pytest.mark.usefixtures("kept_root_logger")
async def test_a_worker_that_is_stopped_twice_takes_no_lines_from_the_next_one(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    keeper = Keeper(master)

    @worker.handler("async")
    async def write(argument: object) -> None:
        logger.warning("here")

    before = set(job_log._installed.users)
    stopped = Worker(master.url, token=master.token, grace_s=0.2)
    stopped.handler("other")(write)
    await stopped.start_mounted()
    await asyncio.gather(stopped.stop(), stopped.stop())
    assert set(job_log._installed.users) <= before
    await up()
    job = await master.run("async")
    assert await keeper.of(job, 1) == [("warning", "tests.of.logs: here")]


@pytest.mark.usefixtures("kept_root_logger")
def test_a_process_that_is_forked_during_a_heartbeat_may_run_a_worker_of_its_own() -> None:
    def install() -> bool:
        worker = Worker("http://127.0.0.1:1")
        job_log.install(worker)
        return job_log._installed.handler in logging.getLogger().handlers

    with job_log._installed.lock:
        child = Child(install)
    assert child.result(timeout_s=10) is True


class MemoryLog:
    """The log of one run, in memory."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def write(self, at_s: float, level: str, text: str) -> None:
        self.texts.append(text)

    def flush(self) -> None:
        return None


def test_threads_that_write_their_first_lines_at_once_write_to_one_log(worker: Worker) -> None:
    @worker.handler("threads")
    async def run(argument: object) -> None: ...

    handler = worker.find("threads")
    assert handler is not None
    offer: Any = {
        "job_id": "j", "token": "t", "attempt": 1, "fence": 1, "argument": None, "headers": {}, "timeout": 60.0,
    }  # fmt: skip
    of_job = JobRun(offer, handler, 0.0)
    of_job.write(0.0, "info", "no log is kept")
    assert of_job.log is None
    # Both threads open a log before either has one.
    both = threading.Barrier(2)

    def open_log(job_id: str, token: str) -> MemoryLog:
        assert (job_id, token) == ("j", "t")
        both.wait(10)
        return MemoryLog()

    of_job.open_log = open_log
    writers = [threading.Thread(target=of_job.write, args=(0.0, "info", text)) for text in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert isinstance(of_job.log, MemoryLog)
    assert sorted(of_job.log.texts) == ["a", "b"]


async def test_lines_that_an_isolated_handler_logs_and_prints_arrive(
    master: FakeMaster, capfd: pytest.CaptureFixture[str]
) -> None:
    keeper = Keeper(master)
    worker = handlers.worker
    worker.master = master.url
    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        job = await master.run("isolated.write")
        result = await wait_until(lambda: master.result(job["job_id"]))
        assert result["type"] == "success"
        lines = await keeper.of(job, 6)
    assert set(lines) == {
        ("info", "by the context"),
        ("error", "handlers: by a logger"),
        ("info", "printed"),
        ("warning", "to stderr"),
        ("info", "from a child"),
        ("info", "without an end"),
    }
    # The worker's own output still has it, too.
    assert "printed" in capfd.readouterr().out


async def test_lines_that_a_command_prints_arrive(master: FakeMaster) -> None:
    keeper = Keeper(master)
    tasks = Tasks()
    program = "import sys; print('out'); print('10%\\r20%\\r30%'); print('err', file=sys.stderr)"
    tasks.command("report", [sys.executable, "-c", program])
    worker = Worker(master.url, token="t0ken", tasks=tasks)
    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        job = await master.run("report", {})
        lines = await keeper.of(job, 3)
    assert sorted(lines) == [("info", "30%"), ("info", "out"), ("warning", "err")]


async def test_a_process_that_a_handler_forks_sends_nothing(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    keeper = Keeper(master)

    @worker.handler("fork")
    def fork(argument: object, ctx: Context) -> int:
        ctx.logger.info("parent")
        child = os.fork()
        if child == 0:
            ctx.logger.info("child")
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    await up()
    job = await master.run("fork")
    assert (await wait_until(lambda: master.result(job["job_id"])))["result"] == 0
    assert await keeper.of(job, 1) == [("info", "parent")]


def test_lines_are_cut_out_of_pieces() -> None:
    found: list[str] = []

    class Log:
        def write(self, at_s: float, level: str, text: str) -> None:
            found.append(text)

    lines = job_log.OutputLines(Log(), "info")
    for piece in (
        b"a",
        b"b\r",
        b"\nc\n\n",
        "ü".encode()[:1],
        "ü".encode()[1:] + b"\xff\n",
        b"1%\r2%",
        b"\r3%",
    ):
        lines.feed(piece)
    assert found == ["ab", "c", "", "ü\ufffd"]
    lines.end()
    lines.end()
    assert found[4:] == ["3%"]
    found.clear()
    lines.feed(b"x" * 200_000)
    assert [len(text) for text in found] == [65_536] * 3


@pytest.mark.parametrize(
    ("number", "level"),
    [(5, "debug"), (20, "info"), (25, "info"), (30, "warning"), (40, "error"), (50, "critical")],
)
def test_levels_have_the_names_of_masters(number: int, level: str) -> None:
    assert job_log.level_of(number) == level


class Lines(list[tuple[str, str]]):
    def write(self, at_s: float, level: str, text: str) -> None:
        self.append((level, text))


def logger_of(lines: Lines) -> job_log.JobLoggerAdapter:
    return job_log.JobLoggerAdapter(
        job_log.JobLogger(logging.getLogger("worker_sdk.job"), lines), {"job_id": "j1"}
    )


@pytest.fixture(params=[logging.WARNING, logging.DEBUG], ids=["kept", "kept and shown"])
def shown_from(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> int:
    caplog.set_level(request.param, "worker_sdk.job")
    return int(request.param)


def test_a_line_of_the_job_alone_has_the_same_text_as_one_that_is_shown(
    shown_from: int, caplog: pytest.LogCaptureFixture
) -> None:
    lines = Lines()
    log = logger_of(lines)
    log.debug("plain 100%")
    log.info("%s of %d", "one", 2)
    log.info("%(a)s", {"a": "map"})
    log.info("%s", {})
    log.info(ValueError("an object"))
    log.log(25, "between")
    assert lines == [
        ("debug", "plain 100%"),
        ("info", "one of 2"),
        ("info", "map"),
        ("info", "{}"),
        ("info", "an object"),
        ("info", "between"),
    ]
    assert [record.getMessage() for record in caplog.records] == (
        [text for _, text in lines] if shown_from == logging.DEBUG else []
    )


def test_records_name_the_job_and_the_place_in_the_code(caplog: pytest.LogCaptureFixture) -> None:
    lines = Lines()
    logger_of(lines).warning("here", stack_info=True)
    (record,) = caplog.records
    assert (record.funcName, record.filename) == (
        "test_records_name_the_job_and_the_place_in_the_code", "test_job_logs.py",
    )  # fmt: skip
    assert record.job_id == "j1"  # type: ignore[attr-defined]
    assert lines[0][1].startswith("here\nStack (most recent call last)")


@pytest.mark.usefixtures("shown_from")
def test_a_line_that_cannot_be_formatted_fails_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    lines = Lines()
    logger_of(lines).info("%d rows", "many")
    ((level, text),) = lines
    assert level == "info"
    assert text.startswith("'%d rows' % ('many',): ")


@pytest.mark.usefixtures("shown_from")
def test_filters_and_what_is_disabled_hold_lines_back(caplog: pytest.LogCaptureFixture) -> None:
    lines = Lines()
    log = logger_of(lines)
    log.logger.addFilter(lambda record: "secret" not in record.getMessage())
    log.info("a secret")
    log.info("public")
    logging.disable(logging.INFO)
    try:
        logger_of(lines).info("disabled")
    finally:
        logging.disable(logging.NOTSET)
    assert lines == [("info", "public")]
