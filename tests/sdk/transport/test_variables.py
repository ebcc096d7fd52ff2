"""Environment variables that nothing reads."""

from pathlib import Path

import pytest

from jqmaster.config import Settings
from tests.support.cli import jqmaster
from worker_sdk import Pusher, SyncPusher, Worker
from worker_sdk.transport.variables import CLIENT_NAMES, check_variables, unknown_variables

MISSPELT = {
    "JQMASTER_PROT": "JQMASTER_PORT",
    "JQMASTER_MAX_ARGUMENT_BYTE": "JQMASTER_MAX_ARGUMENT_BYTES",
    "JQMASTER_REDACT_PATH": "JQMASTER_REDACT_PATHS",
    "JQMASTER_DURABILTY": "JQMASTER_DURABILITY",
    "JQMASTER_CAFILE": "JQMASTER_CLIENT_CAFILE",
    "JQMASTER_TOKNE": "JQMASTER_TOKEN",
    "JQMASTER_URI": "JQMASTER_URL",
    "JQMASTER_API_KEY": "JQMASTER_TOKEN",
}


@pytest.mark.parametrize(("written", "meant"), MISSPELT.items())
def test_a_misspelt_variable_is_named_with_what_was_meant(written: str, meant: str) -> None:
    assert unknown_variables({written: "1"}).misspelt == {written: meant}


def test_variables_of_the_program_its_tools_and_kubernetes_are_known() -> None:
    names = [*Settings.model_fields, *CLIENT_NAMES]
    ours = {f"JQMASTER_{name.upper()}": "" for name in names}
    # Kubernetes tells each container the address of a service named jqmaster.
    theirs = dict.fromkeys(
        [
            "JQMASTER_SERVICE_HOST",
            "JQMASTER_SERVICE_PORT_HTTP",
            "JQMASTER_PORT_8080_TCP_ADDR",
            "JQMASTER_WEB_PORT",
        ],
        "",
    )
    tools = dict.fromkeys(["JQMASTER_TEST_SERVER", "JQMASTER_FLOW_KILLS", "JQMASTER_HYPOTHESIS"], "")
    found = unknown_variables({**ours, **theirs, **tools, "OTHER": ""})
    assert (found.misspelt, found.others) == ({}, ())
    assert unknown_variables({"JQMASTER_WEATHER": ""}).others == ("JQMASTER_WEATHER",)


def test_commands_refuse_a_misspelt_variable_and_warn_of_others(tmp_path: Path) -> None:
    for command in (
        ["serve", "--data-dir", tmp_path / "d"],
        ["doctor", "--data-dir", tmp_path / "d"],
        ["stats"],
    ):
        done = jqmaster(*command, JQMASTER_PROT="9", JQMASTER_MAX_ARGUMENT_BYTE="3")
        assert done.code == 2, done
        assert "JQMASTER_PROT: no such variable; did you mean JQMASTER_PORT?" in done.err
        assert "did you mean JQMASTER_MAX_ARGUMENT_BYTES?" in done.err
    assert not (tmp_path / "d").exists()
    done = jqmaster("stats", JQMASTER_WEATHER="x", JQMASTER_URL="http://127.0.0.1:1")
    assert done.code == 5
    assert "nothing reads JQMASTER_WEATHER" in done.err


async def test_workers_and_pushers_refuse_a_misspelt_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    check_variables.cache_clear()
    monkeypatch.setenv("JQMASTER_CAFILE", "ca.pem")
    with pytest.raises(ValueError, match="did you mean JQMASTER_CLIENT_CAFILE"):
        Pusher("http://127.0.0.1:1")
    with pytest.raises(ValueError, match="did you mean JQMASTER_CLIENT_CAFILE"), SyncPusher() as pusher:
        pusher.enqueue("x")
    worker = Worker()
    worker.handler("x")(lambda argument: None)
    with pytest.raises(ValueError, match="did you mean JQMASTER_CLIENT_CAFILE"):
        async with worker.running():
            pass
