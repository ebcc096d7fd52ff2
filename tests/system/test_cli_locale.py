"""Commands where the terminal cannot show every character: nothing fails, and what it lacks is escaped."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import long, real_time
from tests.support.cli import Outcome, clean_environment
from tests.system.test_cli import Running

pytestmark = [pytest.mark.system, real_time.PROCESSES]

NAME = "photo.shrink"
TASKS = f'''
from worker_sdk import Tasks

tasks = Tasks()

@tasks.task("{NAME}", max_retry=0)
def shrink(text: str) -> None:
    print("開始", text)
    raise RuntimeError("失敗しました 😀")
'''
LOCALES = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("master")
    one = Running(directory, "serve", "--port", 0, "--data-dir", directory / "data")
    yield next(word for word in one.said("serves on").split() if word.startswith("http://"))
    assert one.end() == 0


# A walk starts dozens of commands, and the locale C is ASCII too.
@pytest.fixture(scope="module", params=["C", *long.left_out("ascii", "cp1252")])
def locale(request: pytest.FixtureRequest) -> dict[str, str]:
    return LOCALES[request.param]


def at_a_terminal(url: str, *arguments: str, locale: dict[str, str]) -> tuple[int, str]:
    """Return the exit code of a command and what it wrote to its terminal."""
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "jqmaster", *arguments],
        stdin=terminal, stdout=terminal, stderr=terminal,
        env=clean_environment() | {"JQMASTER_URL": url, "TERM": "xterm", "COLUMNS": "100"} | locale,
    )  # fmt: skip
    os.close(terminal)
    said = b""
    try:
        while piece := os.read(master, 4096):
            said += piece
    except OSError:
        pass  # the terminal is closed
    os.close(master)
    return process.wait(30), said.decode("utf-8", "replace")


@pytest.mark.sized
def test_a_walk_of_commands_over_a_queue_with_japanese_content(
    url: str, locale: dict[str, str], tmp_path: Path
) -> None:
    encoding = locale.get("PYTHONIOENCODING", "ascii")

    def call(*arguments: str) -> Outcome:
        environment = clean_environment() | {"JQMASTER_URL": url} | locale
        command = [sys.executable, "-m", "jqmaster", *arguments]
        done = subprocess.run(
            command, check=False, cwd=tmp_path, env=environment, capture_output=True, stdin=subprocess.DEVNULL
        )
        # A character that the encoding lacks would fail here.
        return Outcome(done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding))

    (tmp_path / "app_tasks.py").write_text(TASKS, encoding="utf-8")
    pushed = call("enqueue", NAME, '{"text": "写真"}', "--tag", "東京", "--max-retry", "0", "--json")
    assert pushed.code == 0, pushed
    job_id = json.loads(pushed.out)["id"]
    worked = call("worker", "app_tasks:tasks", "--burst", "--port", "0")
    assert "Unicode" not in worked.err + worked.out
    view: dict[str, Any] = {}
    walk: list[tuple[str, ...]] = [
        ("job", job_id), ("job", job_id, "--json"), ("jobs",), ("logs", job_id), ("why", job_id), ("無い",),
    ]  # fmt: skip
    # All commands write by the same stream.
    if long.IS_LONG:
        walk += [
            ("failures", "list"), ("pause", NAME, "--reason", "保守"), ("pauses",), ("resume", NAME), ("audit",),
            ("enqueue", NAME, "画像"), ("--help",),
        ]  # fmt: skip
    for arguments in walk:
        done = call(*arguments)
        told = done.out + done.err
        assert "UnicodeEncodeError" not in told, (arguments, told)
        assert "UnicodeDecodeError" not in told, (arguments, told)
        if arguments == ("job", job_id, "--json"):
            view = json.loads(done.out)
    for arguments in (("job", job_id), ("top", "--once")):
        code, said = at_a_terminal(url, *arguments, locale=locale)
        assert code == 0, (arguments, said)
    assert (view["name"], view["argument"], view["tags"], view["state"]) == (
        NAME,
        {"text": "写真"},
        ["東京"],
        "failed",
    )
    assert "失敗しました 😀" in json.dumps(view, ensure_ascii=False)
    assert "\\u5199\\u771f" in call("job", job_id).out
