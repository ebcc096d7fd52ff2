"""Options of `jqmaster worker` by which a container sets labels and grace without a change of its code."""

import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from jqmaster.cli.commands import worker as command

MODULE = """
from worker_sdk import Worker

worker = Worker(labels={"region": "eu", "gpu": "0"}, grace_s=5)


@worker.handler("any")
async def handle(argument):
    return argument
"""


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the command as the command line does, and return the worker that it would start."""
    (tmp_path / "worker_of_options.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    started: list[Any] = []

    def start(self: Any) -> None:
        started.append(self)

    monkeypatch.setattr("worker_sdk.Worker.run", start)

    def run(**options: Any) -> Any:
        # Another test has imported another one of this name.
        monkeypatch.delitem(sys.modules, "worker_of_options", raising=False)
        command.worker("worker_of_options:worker", **options)
        return started.pop()

    return run


def test_labels_of_the_command_line_come_on_top_of_those_of_the_object(ran: Any) -> None:
    worker = ran(label=["gpu=1", "zone=a=b"], grace=300.0)
    assert worker.labels == {"region": "eu", "gpu": "1", "zone": "a=b"}
    assert worker.grace_s == 300.0


def test_without_options_the_object_keeps_its_own(ran: Any) -> None:
    assert ran().grace_s == 5


@pytest.mark.parametrize("label", ["gpu", "=1"])
def test_a_label_without_a_name_or_value_is_refused(
    ran: Any, label: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit):
        ran(label=[label])
    assert f"--label {label}: expected NAME=VALUE" in capsys.readouterr().err


def test_the_namespace_is_a_part_of_every_address(
    ran: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JQMASTER_URL", raising=False)
    # The command changes the variable, for what jobs push.
    monkeypatch.setenv("JQMASTER_NAMESPACE", "")
    assert ran(namespace="shop").master == "http://127.0.0.1:8080/ns/shop"
    worker = ran(master=["http://a", "http://b/ns/mail"], namespace="shop")
    assert worker.master == ("http://a/ns/shop", "http://b/ns/mail")
    assert ran(namespace="default", master=["http://a"]).master == ("http://a",)
    with pytest.raises(typer.Exit):
        ran(master=["http://a"], namespace="Shop")
    assert "2 to 39 of the characters a-z 0-9 -" in capsys.readouterr().err


def test_an_address_may_be_repeated_or_hold_several(ran: Any) -> None:
    assert list(ran(master=["http://a:1 http://b:2", "http://c:3"]).master) == [
        "http://a:1",
        "http://b:2",
        "http://c:3",
    ]


@pytest.mark.parametrize("address", ["http://a:b", "http://a:99999", "http://a b", " ", "http://[::1"])
def test_a_malformed_address_is_refused(ran: Any, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        ran(master=[address])
    assert ended.value.exit_code == 2
    assert "not the address of a master" in capsys.readouterr().err
