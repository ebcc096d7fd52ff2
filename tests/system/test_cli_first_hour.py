"""The command line in a newcomer's first hour: usual slips get helpful answers."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import real_time
from tests.support.cli import Outcome, clean_environment, jqmaster
from tests.support.ports import free_port
from tests.system.test_cli import TASKS, Running

pytestmark = [pytest.mark.system, real_time.PROCESSES]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Running]":
    directory = tmp_path_factory.mktemp("master")
    one = Running(directory, "serve", "--port", 0, "--data-dir", directory / "data")
    one.said("web UI: http://127.0.0.1:")
    yield one
    assert one.end() == 0


@pytest.fixture(scope="module")
def url(running: Running) -> str:
    return next(word for word in running.said("serves on").split() if word.startswith("http://"))


def call(url: str, *arguments: object, stdin: str = "") -> Outcome:
    return jqmaster(*arguments, stdin=stdin, JQMASTER_URL=url)


def test_serve_names_the_web_ui(running: Running, url: str) -> None:
    assert running.said("web UI").endswith(f"{url}/")


def test_version_is_an_option_too() -> None:
    assert jqmaster("--version").out == jqmaster("version").out != ""


# --- slips


def test_an_option_of_another_queue_is_answered_with_ours() -> None:
    for name, meant in (
        ("--concurrency", "--max-jobs"),
        ("--prefetch", "--max-jobs"),
        ("--max-jbos", "--max-jobs"),
    ):
        refused = jqmaster("worker", "tasks:worker", name, 4)
        assert (refused.code, name in refused.err, meant in refused.err) == (2, True, True), refused.err


def test_a_file_in_place_of_a_module_and_a_misspelt_object_are_answered_with_the_right_words(
    tmp_path: Path,
) -> None:
    (tmp_path / "shop.py").write_text("from worker_sdk import Tasks\nfor_mail = Tasks()\n")
    for target, text in (
        ("./shop.py:for_mail", "./shop.py is not the name of a module; did you mean shop?"),
        ("shop.py:for_mail", "shop.py is not the name of a module; did you mean shop?"),
        ("shopp:for_mail", f"no module shopp in {tmp_path.resolve()}"),
        ("shop:for_mial", "shop has no for_mial; did you mean for_mail?"),
        ("shop:zzz", "shop has no zzz; it has for_mail"),
        ("shop:for_mail.zzz", "shop has no for_mail.zzz\n"),
    ):
        refused = jqmaster("worker", target, cwd=tmp_path)
        assert (refused.code, text in refused.err, "Traceback" in refused.err) == (2, True, False), (
            refused.err
        )


def test_help_takes_the_arguments_of_a_command() -> None:
    assert jqmaster("help", "bulk", "retry").out == jqmaster("help", "bulk").out != ""
    assert jqmaster("help", "workers", "nope").code == 2


def test_a_shell_completes_states_and_topics() -> None:
    for line, completed in (
        ("jqmaster jobs --state r", {"ready", "running", "retrying"}),
        ("jqmaster bulk cancel --state sch", {"scheduled"}),
        ("jqmaster help ti", {"times"}),
        ("jqmaster batches list --state s", {"sealed"}),
    ):
        asked = {"_JQMASTER_COMPLETE": "complete_bash", "COMP_WORDS": line}
        done = subprocess.run(
            [Path(sys.executable).with_name("jqmaster")],
            env={**clean_environment(), **asked, "COMP_CWORD": str(len(line.split()) - 1)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert set(done.stdout.split()) == completed


@pytest.mark.parametrize("how", ["worker", "serve"])
def test_a_module_that_fails_is_shown_by_its_own_frames_alone(tmp_path: Path, how: str) -> None:
    (tmp_path / "broken.py").write_text("def set_up():\n    raise RuntimeError('no database')\n\nset_up()\n")
    arguments = (
        ("worker", "broken:worker")
        if how == "worker"
        else ("serve", "--port", 0, "--with-worker", "broken:worker", "--data-dir", tmp_path / "data")
    )
    ended = jqmaster(*arguments, cwd=tmp_path)
    assert ended.code == 2
    assert "module broken cannot be imported" in ended.err
    assert "RuntimeError: no database" in ended.err
    assert ended.err.count("  File ") == 2
    assert "importlib" not in ended.err
    assert "typer" not in ended.err


def test_a_module_with_a_syntax_error_is_shown_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    ended = jqmaster("worker", "broken:worker", cwd=tmp_path)
    assert (ended.code, "SyntaxError" in ended.err, "importlib" in ended.err) == (2, True, False)


def test_a_file_of_constraints_is_refused_with_all_its_faults(tmp_path: Path) -> None:
    file = tmp_path / "constraints.toml"
    file.write_text('[[constraints]]\nname = "a"\n')
    assert "expected tables named `constraint`" in jqmaster("constraints", "plan", file).err
    file.write_text('[[constraint]]\nname = "a"\nconcurrency = 0\n[[constraint]]\nconcurrency = 1\n')
    ended = jqmaster("constraints", "plan", file)
    assert ended.code == 2
    assert "constraint a" in ended.err
    assert "constraint 2 has no name" in ended.err


def test_a_user_is_not_asked_for_a_password_in_vain(url: str) -> None:
    ended = call(url, "users", "add", "bob", "boss")
    assert (ended.code, ended.err) == (
        2,
        "Error: boss is not a role; expected none, viewer, operator, admin\n",
    )
    ended = call(url, "users", "add", "bob", "viewer")
    assert ended.code == 2
    assert ended.err == "Error: there is no terminal to ask for the password; use --password-file\n"


def test_a_wait_below_zero_enqueues_nothing(url: str) -> None:
    assert call(url, "enqueue", "never.pushed", "1", "--wait", -1).code == 2
    assert call(url, "jobs", "--name", "never.pushed", "--json").out == ""


@pytest.mark.parametrize("group", ["workers", "masters", "constraints", "settings", "tokens", "users"])
def test_every_group_lists_with_and_without_the_word(url: str, group: str) -> None:
    with_word, without = call(url, group, "list", "--json"), call(url, group, "--json")
    assert (with_word.code, without.code) == (0, 0), with_word.err + without.err
    assert [sorted(one) for one in with_word.lines()] == [sorted(one) for one in without.lines()]


@pytest.mark.parametrize("group", ["token", "user"])
def test_the_former_names_of_groups_still_work(url: str, group: str) -> None:
    assert call(url, group, "list").code == 0
    assert f" {group} " not in jqmaster("--help").out


def test_an_address_with_a_path_is_no_missing_job(url: str) -> None:
    ended = call(f"{url}/queue", "jobs")
    assert ended.code == 2
    assert f"no jqmaster at {url}/queue" in ended.err


def test_an_operator_is_told_in_his_own_words_that_a_worker_is_unknown(url: str) -> None:
    ended = call(url, "workers", "drain", "nope")
    assert ended.code == 3
    assert "no worker nope is registered" in ended.err
    assert "register again" not in ended.err


def test_set_priority_without_a_priority_names_the_option(url: str) -> None:
    assert call(url, "bulk", "set-priority", "--all", "--yes").err == "Error: --priority is missing\n"
    ended = call(url, "bulk", "cancel", "--all", "--yes", "--priority", 3)
    assert ended.err == "Error: --priority can be used only with set-priority\n"


def test_a_setting_that_does_not_exist_is_met_with_the_one_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "jq.toml").write_text("prot = 1\nxyzzy = 2\n")
    ended = jqmaster("serve", "--config", tmp_path / "jq.toml")
    assert ended.code == 2
    assert "prot: no such setting; did you mean port?" in ended.err
    assert "xyzzy: no such setting\n" in ended.err


def test_a_value_of_a_wrong_form_is_met_with_an_example() -> None:
    ended = jqmaster(
        "doctor", JQMASTER_LOG_ARCHIVE_URL="/srv/job-logs", JQMASTER_TRACES_ENDPOINT="collector:4318"
    )
    assert ended.code == 2
    assert "such as file:///srv/job-logs" in ended.err
    assert "such as http://127.0.0.1:4318" in ended.err
    assert "pattern" not in ended.err


def test_a_setting_that_is_misspelt_in_the_command_is_met_with_the_one_that_was_meant(url: str) -> None:
    ended = call(url, "settings", "set", "max_argument_byte=3")
    assert ended.code != 0
    assert "did you mean max_argument_bytes?" in ended.err


def test_a_port_in_use_is_named(url: str, tmp_path: Path) -> None:
    port = url.rpartition(":")[2]
    ended = jqmaster("serve", "--port", port, "--data-dir", tmp_path / "data")
    assert (ended.code, ended.err.splitlines()[-1]) == (
        4,
        f"Error: port {port} is in use; choose another one with --port",
    )
    assert not (tmp_path / "data").exists()


def test_a_rule_is_said_once(url: str) -> None:
    ended = call(url, "jobs", "--state", "done")
    assert ended.code == 2
    assert ended.err.count("must be one of") == 1, ended.err


# --- one job, and many from a file


@pytest.mark.req("M9")
def test_one_job_is_set_run_and_deleted(url: str) -> None:
    job_id = call(
        url, "enqueue", "later", "1", "--run-at", "2090-01-01", "--expires-at", "2091-01-01T00:00:00Z",
        "--header", "trace=a=b", "--retry", '{"base_s": 2}', "--tag", "x", "--max-retry", 1,
    ).out.strip()  # fmt: skip
    (job,) = call(url, "job", job_id, "--json").lines()
    assert (job["state"], job["headers"], job["tags"]) == ("scheduled", {"trace": "a=b"}, ["x"])
    assert job["expires_at"].startswith("2091-01-01T00:00:00")
    ended = call(url, "set", job_id, "--priority", -3, "--timeout", 7, "--run-at", "2089-01-01")
    assert (ended.code, ended.out) == (0, f"{job_id}  scheduled\n"), ended.err
    (job,) = call(url, "job", job_id, "--json").lines()
    assert (job["priority"], job["timeout"], job["run_at"][:4]) == (-3, 7, "2089")
    assert call(url, "set", job_id).code == 2
    assert call(url, "run", job_id).out == f"{job_id}  ready\n"
    assert call(url, "run", job_id).code == 0
    assert call(url, "delete", job_id).err == "Error: there is no terminal for the confirmation; use --yes\n"
    assert call(url, "delete", job_id, "--yes").out == f"{job_id}  deleted\n"
    assert call(url, "delete", job_id, "--yes").code == 3


@pytest.mark.req("J18")
def test_a_name_that_no_worker_has_ever_served_is_told(url: str) -> None:
    ended = call(url, "enqueue", "misspelt.name", "1")
    assert (ended.code, len(ended.out.split())) == (0, 1)
    assert ended.err == "  No worker has ever served the name misspelt.name: the job waits until one does.\n"


@pytest.mark.req("S3")
def test_jobs_come_from_json_lines(url: str, tmp_path: Path) -> None:
    lines = [json.dumps({"name": "from.file", "argument": n}) for n in range(1_200)]
    (tmp_path / "jobs.jsonl").write_text("\n".join(lines) + "\n")
    ended = call(url, "enqueue", "--from", tmp_path / "jobs.jsonl", "--tag", "imported")
    ids = ended.out.split()
    assert (ended.code, len(ids), len(set(ids))) == (0, 1_200, 1_200), ended.err
    # Two bulk requests but only one warning.
    assert ended.err == "  No worker has ever served the name from.file: the job waits until one does.\n"
    (job,) = call(url, "job", ids[7], "--json").lines()
    assert (job["argument"], job["tags"]) == (7, ["imported"])
    ended = call(url, "enqueue", "--from", "-", stdin='{"name": "from.stdin"}\nnonsense\n')
    assert ended.code == 2
    assert "-, line 2: not JSON" in ended.err
    assert call(url, "enqueue", "--from", "-", stdin="[1]\n").code == 2
    assert call(url, "enqueue", "name", "--from", "-").code == 2
    assert "name of the job is missing" in call(url, "enqueue").err
    # Lists across all pages are as long as requested.
    assert len(call(url, "jobs", "--name", "from.file", "--limit", 1_100, "--json").lines()) == 1_100
    ended = call(url, "bulk", "cancel", *ids[:3], "--yes", "--json")
    assert (ended.code, ended.lines()[-1]["done"]) == (0, 3), ended.err
    assert call(url, "bulk", "cancel", ids[0], "--all", "--yes").code == 2


def test_top_prints_one_picture_where_there_is_no_terminal(url: str) -> None:
    call(url, "enqueue", "seen.by.top")
    # The picture has the names of the last counts, which masters write from time to time.
    end_s = time.monotonic() + 15
    ended = call(url, "top")
    while ended.code == 0 and "seen.by.top" not in ended.out and time.monotonic() < end_s:
        ended = call(url, "top")
    assert "seen.by.top" in ended.out
    assert ended.code == 0, ended.err
    assert "slots" in ended.out


# --- ends and health


def test_a_terminal_that_closes_ends_master_and_store_in_good_order(tmp_path: Path) -> None:
    running = Running(tmp_path, "serve", "--port", 0, "--data-dir", tmp_path / "data")
    running.said("serves on")
    assert running.end(signal.SIGHUP) == 0
    # The directory is unused again; an orphaned store would still hold it.
    assert jqmaster("doctor", "--data-dir", tmp_path / "data").code == 5


def test_a_worker_drains_when_its_terminal_closes(url: str, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    worker = Running(tmp_path, "worker", "tasks:worker", "--master", url, "--pull")
    wait_for_worker(url)
    assert worker.end(signal.SIGHUP) == 0
    assert "draining" in (tmp_path / "worker.err").read_text()


def wait_for_worker(url: str) -> None:
    deadline = time.monotonic() + 20
    while not call(url, "workers", "--json").out:
        assert time.monotonic() < deadline


def test_healthcheck_sees_masters_and_workers_that_push_or_pull(url: str, tmp_path: Path) -> None:
    port = url.rpartition(":")[2]
    assert jqmaster("healthcheck", JQMASTER_PORT=port).code == 0
    assert jqmaster("healthcheck", "--url", f"{url}/healthz").code == 0
    assert jqmaster("healthcheck", "--url", f"{url}/nowhere").code == 5
    assert jqmaster("healthcheck", JQMASTER_PORT=str(free_port())).code == 5
    (tmp_path / "tasks.py").write_text(TASKS)
    file = tmp_path / "alive"
    nobody: dict[str, Any] = {"JQMASTER_PORT": str(free_port()), "JQMASTER_HEALTH_FILE": str(file)}
    assert jqmaster("healthcheck", **nobody).code == 5
    worker = Running(
        tmp_path, "worker", "tasks:worker", "--master", url, "--pull", JQMASTER_HEALTH_FILE=str(file)
    )
    try:
        deadline = time.monotonic() + 20
        while not file.exists():
            assert time.monotonic() < deadline
        assert jqmaster("healthcheck", **nobody).code == 0
    finally:
        worker.end()
    os.utime(file, (time.time() - 60, time.time() - 60))
    ended = jqmaster("healthcheck", **nobody)
    assert (ended.code, "heartbeat" in ended.err) == (5, True)


def test_nohup_is_respected(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            "nohup",
            sys.executable,
            "-m",
            "jqmaster",
            "serve",
            "--port",
            "0",
            "--data-dir",
            str(tmp_path / "data"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=clean_environment(),
        text=True,
    )
    assert process.stdout is not None
    try:
        assert "serves on" in process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
