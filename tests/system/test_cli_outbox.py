"""`jqmaster outbox`: push waiting outbox rows, show them, and make them wait again."""

import json
import signal
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.cli import clean_environment, jqmaster
from tests.support.ports import free_port

pytestmark = [pytest.mark.system, real_time.PROCESSES, pytest.mark.req("S11"), pytest.mark.timeout(90)]

APP = """
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from worker_sdk.outbox.sqlalchemy import SqlAlchemyOutbox

engine = create_engine("sqlite:///app.db")
outbox = SqlAlchemyOutbox(engine, is_direct=False)
outbox.create_table()
nothing = 1


def write(*numbers):
    with Session(engine) as session, outbox.transaction(session):
        outbox.add(session, *(("n", number) for number in numbers))
"""


@pytest.fixture
def master() -> Iterator[FakeMaster]:
    one = FakeMaster()
    yield one
    one.close()


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(textwrap.dedent(APP))
    write(tmp_path, "1, 2")
    return tmp_path


def write(directory: Path, numbers: str) -> None:
    subprocess.run([sys.executable, "-c", f"import app; app.write({numbers})"], cwd=directory, check=True)


def environment(master: FakeMaster) -> dict[str, str]:
    return {"JQMASTER_URL": master.url, "JQMASTER_TOKEN": master.token}


def test_waiting_rows_are_shown_and_pushed_and_refused_ones_set_aside(app: Path, master: FakeMaster) -> None:
    def run(*arguments: str) -> str:
        done = jqmaster("outbox", "app:outbox", *arguments, cwd=app, **environment(master))
        assert done.code == 0, done
        return done.out

    assert "2 waiting" in run("--status")
    problem = {
        "status": 422, "code": "invalid", "detail": "no", "errors": [{"loc": ["jobs", 0, "argument"], "msg": "no"}],
    }  # fmt: skip
    master.script("bulk", 422, problem)
    assert run("--once") == "1 jobs pushed, 1 refused\n"
    shown = json.loads(run("--status", "--json"))
    assert (shown["waiting"], shown["stuck"], shown["refused"][0]["error"]) == (
        0,
        1,
        "422 invalid: argument: no",
    )
    assert run("--retry-stuck") == "1 jobs wait again\n"
    assert json.loads(run("--once", "--json")) == {"pushed": 1, "refused": 0}
    assert sorted(job["argument"] for job in master.jobs.values()) == [1, 2]


def test_without_a_master_it_says_so_and_the_rows_stay(app: Path) -> None:
    done = jqmaster("outbox", "app:outbox", "--once", cwd=app, JQMASTER_URL=f"http://127.0.0.1:{free_port()}")
    assert done.code == 5
    assert "0 jobs pushed" in done.err


def test_the_error_names_a_table_that_is_no_outbox(app: Path) -> None:
    done = jqmaster("outbox", "app:nothing", cwd=app)
    assert done.code == 2
    assert "app:nothing is not an outbox" in done.err


def test_a_relay_pushes_what_comes_serves_metrics_and_ends_in_good_order(
    app: Path, master: FakeMaster
) -> None:
    port = free_port()
    relay = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "jqmaster",
            "outbox",
            "app:outbox",
            "--poll",
            "0.05",
            "--metrics-port",
            str(port),
        ],
        cwd=app,
        env={**clean_environment(), **environment(master)},
        stderr=subprocess.PIPE,
    )
    try:
        write(app, "3")
        deadline_s = time.monotonic() + 30
        while len(master.jobs) < 3 and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert len(master.jobs) == 3
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert "jqmaster_outbox_waiting" in answer.read().decode()
    finally:
        relay.send_signal(signal.SIGTERM)
        _, errors = relay.communicate(timeout=30)
    assert relay.returncode == 0, errors
