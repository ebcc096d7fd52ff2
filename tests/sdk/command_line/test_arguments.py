"""The arguments of `python -m worker_sdk worker`: the same options, bounds and variables as `jqmaster worker` has."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from jqmaster.cli.commands.worker import worker as command_of_the_server
from tests.support.cli import clean_environment
from worker_sdk.command_line.arguments import read_arguments
from worker_sdk.command_line.ends import CommandError
from worker_sdk.command_line.options import DEFAULTS, OPTIONS

VARIABLES = [one for one in OPTIONS if one.variable is not None]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for option in VARIABLES:
        assert option.variable
        monkeypatch.delenv(option.variable, raising=False)


def test_without_arguments_each_option_has_its_default() -> None:
    assert read_arguments(["worker"]) == DEFAULTS


def test_values_are_converted() -> None:
    found = read_arguments(
        ["worker", "app:worker", "--port", "0", "--grace", "2.5", "--master", "http://a", "--master", "http://b",
         "--token-file", "t", "--pull", "--log-level", "debug", "--burst"]
    )  # fmt: skip
    assert found == {
        **DEFAULTS,
        "target": "app:worker", "port": 0, "grace": 2.5, "master": ["http://a", "http://b"], "token": Path("t"),
        "pull": True, "log_level": "debug", "burst": True,
    }  # fmt: skip


def test_a_variable_stands_for_its_option_which_takes_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JQMASTER_URL", "http://a http://b")
    monkeypatch.setenv("JQMASTER_WORKER_PULL", "yes")
    monkeypatch.setenv("JQMASTER_WORKER_LOG_LEVEL", "warning")
    found = read_arguments(["worker", "--log-level", "error"])
    assert (found["master"], found["pull"], found["log_level"]) == (["http://a", "http://b"], True, "error")
    monkeypatch.setenv("JQMASTER_WORKER_PULL", "off")
    assert read_arguments(["worker"])["pull"] is False


@pytest.mark.parametrize(
    ("variable", "text", "says"),
    [
        ("JQMASTER_WORKER_PULL", "perhaps", "neither true nor false"),
        ("JQMASTER_WORKER_LOG_LEVEL", "loud", "not one of debug, info"),
    ],
)
def test_a_variable_that_is_not_valid_is_named(
    variable: str, text: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(CommandError, match=f"{variable}: .*{says}") as ended:
        read_arguments(["worker"])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["work"],
        ["worker", "--por", "1"],
        ["worker", "--port", "high"],
        ["worker", "--processes", "0"],
        ["worker", "--processes", "65"],
        ["worker", "--burst-wait", "0"],
        ["worker", "--log-level", "loud"],
    ],
)
def test_arguments_that_are_not_valid_end_the_command(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_arguments(arguments)
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_an_option_of_another_queue_is_answered_with_ours(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_arguments(["worker", "tasks:worker", "--concurrency=4"])
    assert "unrecognized arguments: --concurrency=4; did you mean --max-jobs?" in capsys.readouterr().err


def test_both_commands_have_the_same_options(capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer(add_completion=False)
    app.command()(command_of_the_server)
    of_the_server: dict[str, Any] = {one.name: one for one in typer.main.get_command(app).params}
    assert of_the_server.keys() == DEFAULTS.keys()
    with pytest.raises(SystemExit):
        read_arguments(["worker", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for option in OPTIONS:
        other = of_the_server[option.name]
        assert (other.opts, other.envvar, other.multiple) == ([option.flag], option.variable, option.is_list)
        assert other.help == option.help
        assert f"{option.flag} " in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name MODULE:OBJECT, a package with --autodiscover, or a --command"),
        (["absent:worker"], "no module absent in "),
        (["json:loads"], "json:loads is neither a worker_sdk.Worker nor a worker_sdk.Tasks"),
        (["--command", "nightly"], "--command nightly: expected NAME=ARGV"),
        (["--command", "a=true", "--burst", "--processes", "2"], "--burst runs one process"),
        (["--command", "a=true", "--token-file", "/nowhere"], "the token cannot be read"),
    ],
)
def test_a_command_that_cannot_start_says_why_in_one_line(
    arguments: list[str], says: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "worker_sdk", "worker", *arguments],
        cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
