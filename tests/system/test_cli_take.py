"""`jqmaster take` and `jqmaster done`: a shell script runs one job with two calls."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import long, real_time
from tests.support.cli import Outcome, clean_environment, jqmaster
from tests.system.test_cli import Running

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.system, real_time.PROCESSES, pytest.mark.req("M11"), pytest.mark.timeout(90)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("master")
    settings = {
        "JQMASTER_LEASE_MS": "6000",
        "JQMASTER_OFFER_MS": "1000",
        "JQMASTER_HEARTBEAT_INTERVAL_S": "0.2",
        "JQMASTER_WORKER_STALE_S": "3",
    }
    running = Running(directory, "serve", "--port", 0, "--data-dir", directory / "data", **settings)
    try:
        line = running.said("serves on")
        yield next(word for word in line.split() if word.startswith("http://"))
    finally:
        assert running.end() == 0


def script(shell: str, text: str, directory: Path, url: str) -> "subprocess.Popen[str]":
    """Start a script in which `$JQ` is the command. It leads its process group, as a script started by cron does."""
    (directory / "script").write_text(text)
    environment = {
        "JQ": f"{sys.executable} -m jqmaster",
        "JQMASTER_URL": url,
        "XDG_RUNTIME_DIR": str(directory),
    }
    return subprocess.Popen(
        [shell, directory / "script"],
        env=clean_environment() | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ran(shell: str, text: str, directory: Path, url: str) -> Outcome:
    process = script(shell, text, directory, url)
    out, err = process.communicate(timeout=60)
    return Outcome(process.returncode, out, err)


def called(url: str, method: str, path: str, **given: Any) -> Any:
    answer = httpx.request(
        method, f"{url}/api/{path}", headers={"Accept": "application/json"}, trust_env=False, **given
    )
    assert answer.status_code < 300, answer.text
    return answer.json()


def enqueued(url: str, name: str, **fields: Any) -> str:
    return str(called(url, "POST", "jobs", json={"name": name, **fields})["id"])


def job(url: str, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = called(url, "GET", f"jobs/{job_id}")
    return found


def cancel(url: str, job_id: str) -> None:
    called(url, "POST", f"jobs/{job_id}/cancel")


def workers(url: str) -> list[Any]:
    return [one for one in called(url, "GET", "workers")["workers"] if one["state"] != "detached"]


def called_here(url: str, directory: Path, *arguments: object) -> Outcome:
    return jqmaster(*arguments, JQMASTER_URL=url, XDG_RUNTIME_DIR=str(directory))


def eventually(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + 20
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


@pytest.mark.parametrize(
    ("shell", "take"),
    [
        ("bash", "$JQ take sh.parent --wait 20"),
        ("dash", "timeout 50 $JQ take sh.parent --wait 20"),
        *long.left_out(
            ("bash", "timeout 50 $JQ take sh.parent --wait 20"),
            ("bash", "env $JQ take sh.parent --wait 20"),
            ("dash", "env $JQ take sh.parent --wait 20"),
            ("dash", "$JQ take sh.parent --wait 20"),
        ),
    ],
)
def test_the_script_is_watched_and_not_the_program_that_runs_it(
    url: str, tmp_path: Path, shell: str, take: str
) -> None:
    job_id = enqueued(url, "sh.parent", max_retry=0)
    (tmp_path / "inner").write_text(f'job="$({take} | cat)" || exit 1\necho taken\nexit 3\n')
    program = "import subprocess, sys, time; subprocess.run([sys.argv[1], sys.argv[2]]); time.sleep(60)"
    outer = subprocess.Popen(
        [sys.executable, "-c", program, shell, tmp_path / "inner"],
        env=clean_environment()
        | {"JQ": f"{sys.executable} -m jqmaster", "JQMASTER_URL": url, "XDG_RUNTIME_DIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        # The program goes on, and so does its group of processes.
        ended = eventually(
            lambda: (one := job(url, job_id))["state"] == "failed" and one, "the attempt has failed"
        )
        assert ended["attempts"][0]["outcome"] == "failure"
        assert outer.poll() is None
    finally:
        outer.kill()
        outer.wait()


@pytest.mark.parametrize("shell", ["dash", *long.left_out("bash")])
def test_a_script_takes_a_job_runs_it_longer_than_a_lease_and_reports_its_result(
    url: str, tmp_path: Path, shell: str
) -> None:
    job_id = enqueued(url, "sh.add", argument=[20, 22], keep_result=True, headers={"who": "me"})
    done = ran(
        shell,
        """set -e
job=$($JQ take sh.other sh.add --wait 5 | cat)
echo "$job"
id=$(echo "$job" | sed 's/.*"id":"\\([^"]*\\)".*/\\1/')
sleep 7
echo '{"sum": 42}' | $JQ done "$id" --success -
""",
        tmp_path,
        url,
    )
    assert (done.code, done.err) == (0, "")
    taken = json.loads(done.out)
    assert (taken["id"], taken["name"], taken["argument"]) == (job_id, "sh.add", [20, 22])
    assert (taken["attempt"], taken["headers"]) == (1, {"who": "me"})
    assert called(url, "GET", f"jobs/{job_id}/result")["result"] == {"sum": 42}
    found = job(url, job_id)
    assert (found["state"], len(found["attempts"])) == ("succeeded", 1)
    assert workers(url) == []
    assert list((tmp_path / f"jqmaster-{os.getuid()}").iterdir()) == []


@pytest.mark.parametrize(
    ("options", "state", "message"),
    [
        (("--failure", "no disk", "--no-retry"), "failed", "no disk"),
        (("--failure", "no disk", "--retry-after", 60), "retrying", "no disk"),
        (("--discard", "was done already"), "discarded", "was done already"),
        (("--defer", 60), "scheduled", ""),
    ],
)
def test_each_end_is_reported(
    url: str, tmp_path: Path, options: tuple[object, ...], state: str, message: str
) -> None:
    name = f"sh.{uuid.uuid4().hex[:8]}"
    job_id = enqueued(url, name)
    taken = called_here(url, tmp_path, "take", name, "--wait", 5)
    assert taken.lines()[0]["id"] == job_id, taken.err
    assert job(url, job_id)["state"] == "running"
    ended = called_here(url, tmp_path, "done", job_id, *options)
    assert (ended.code, ended.err) == (0, "")
    found = job(url, job_id)
    assert (found["state"], found["attempts"][0].get("message") or "") == (state, message)
    again = called_here(url, tmp_path, "done", job_id, *options)
    assert (again.code, "is held here" in again.err) == (3, True)


JQ = """#!{python}
import json, sys
value = json.load(sys.stdin)
for field in sys.argv[2].strip(".").split("."):
    value = value[field]
print(value)
"""


def test_the_script_in_the_docs_works_as_it_is_written(url: str, tmp_path: Path) -> None:
    (text,) = re.findall(
        r"```sh\n(#!/bin/sh.*?)```", (ROOT / "docs/shell_and_cron.md").read_text("utf-8"), re.DOTALL
    )
    for name, program in {
        "jqmaster": f'#!/bin/sh\nexec {sys.executable} -m jqmaster "$@"\n',
        "pg_dump": '#!/bin/sh\n[ "$1" = shop ] && echo "dump of $1"\n',
        "jq": JQ.format(python=sys.executable),
    }.items():
        (tmp_path / name).write_text(program)
        (tmp_path / name).chmod(0o755)
    text = text.replace("/backups", str(tmp_path)).replace("#!/bin/sh", f"PATH={tmp_path}:$PATH; cd {ROOT}")
    assert ran("sh", text.replace("--wait 30", "--wait 0.5"), tmp_path, url).code == 0
    good = enqueued(url, "backup.database", argument={"database": "shop"}, keep_result=True)
    assert ran("sh", text, tmp_path, url).err == ""
    assert called(url, "GET", f"jobs/{good}/result")["result"] == {"bytes": 13}
    bad = enqueued(url, "backup.database", argument={"database": "none"}, max_retry=0)
    assert ran("sh", text, tmp_path, url).err == ""
    found = job(url, bad)
    assert (found["state"], found["attempts"][0]["message"]) == ("failed", "pg_dump failed")


def test_without_a_job_it_waits_and_says_so(url: str, tmp_path: Path) -> None:
    none = called_here(url, tmp_path, "take", "sh.none")
    assert (none.code, none.out) == (3, "")
    assert "no job for sh.none came in 0 s" in none.err
    late = enqueued(url, "sh.late", delay=2)
    assert called_here(url, tmp_path, "take", "sh.late", "--wait", 15).lines()[0]["id"] == late
    assert called_here(url, tmp_path, "done", late, "--success", "null").code == 0
    assert workers(url) == []


def test_a_script_that_dies_has_failed_at_once(url: str, tmp_path: Path) -> None:
    job_id = enqueued(url, "sh.dies", max_retry=0)
    process = script("bash", "job=$($JQ take sh.dies --wait 5)\necho taken\nsleep 60\n", tmp_path, url)
    assert process.stdout
    assert process.stderr
    assert process.stdout.readline() == "taken\n"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    process.stderr.close()
    found = eventually(lambda: (one := job(url, job_id))["state"] == "failed" and one, "the attempt failed")
    assert "ended without `jqmaster done`" in found["attempts"][0]["message"]
    eventually(lambda: workers(url) == [], "the worker is gone")


def test_a_canceled_job_ends_its_script_where_that_is_asked_for(url: str, tmp_path: Path) -> None:
    job_id = enqueued(url, "sh.stops")
    process = script(
        "bash", "job=$($JQ take sh.stops --wait 5 --terminate)\necho taken\nsleep 60 & wait\n", tmp_path, url
    )
    assert process.stdout
    assert process.stdout.readline() == "taken\n"
    cancel(url, job_id)
    assert process.wait(20) == -signal.SIGTERM
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    eventually(lambda: job(url, job_id)["state"] == "canceled", "the job is canceled")
    eventually(lambda: workers(url) == [], "the worker is gone")


def test_a_report_of_a_canceled_job_comes_too_late(url: str, tmp_path: Path) -> None:
    job_id = enqueued(url, "sh.canceled")
    assert called_here(url, tmp_path, "take", "sh.canceled", "--wait", 5).code == 0
    cancel(url, job_id)
    late = called_here(url, tmp_path, "done", job_id, "--success", "1")
    assert (late.code, "came too late" in late.err) == (1, True)
    assert job(url, job_id)["state"] == "canceled"
    assert workers(url) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "give one of --success"),
        (("--success", "1", "--discard", "x"), "give one of --success"),
        (("--success", "{"), "JSON"),
    ],
)
def test_a_file_that_does_not_end_a_job_is_refused(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    refused = jqmaster(
        "done", "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e", *options, XDG_RUNTIME_DIR=str(tmp_path)
    )
    assert refused.code == 2
    assert said in refused.err


def test_a_directory_that_others_may_write_is_not_believed(url: str, tmp_path: Path) -> None:
    (tmp_path / f"jqmaster-{os.getuid()}").mkdir(mode=0o777)
    (tmp_path / f"jqmaster-{os.getuid()}").chmod(0o777)
    job_id = enqueued(url, "sh.open")
    refused = called_here(url, tmp_path, "take", "sh.open", "--wait", 5)
    assert (refused.code, "closed to others" in refused.err) == (4, True)
    eventually(lambda: job(url, job_id)["state"] == "ready", "the job went back")
