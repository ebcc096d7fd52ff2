"""The web UI's libraries are those named in tools/web, as copied by `make vendor`."""

import hashlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
VENDOR = ROOT / "jqmaster" / "web" / "vendor"
TOOLS = ROOT / "tools" / "web"


def test_vendored_files_are_those_that_were_copied() -> None:
    manifest = json.loads((TOOLS / "vendored.json").read_text())
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDOR.iterdir()}
    assert sums == {name: entry["sha256"] for name, entry in manifest.items()}
    pinned = json.loads((TOOLS / "package.json").read_text())["devDependencies"]
    assert {(e["package"], e["version"]) for e in manifest.values()} <= set(pinned.items())


def test_each_library_comes_with_its_licence() -> None:
    manifest = json.loads((TOOLS / "vendored.json").read_text())
    packages = {entry["package"] for entry in manifest.values()}
    assert {name.removeprefix("LICENSE.") for name in manifest if name.startswith("LICENSE.")} == packages


def test_the_lock_names_no_host() -> None:
    locked = json.loads((TOOLS / "package-lock.json").read_text())["packages"]
    assert not [name for name, entry in locked.items() if "resolved" in entry]


def test_browsers_find_all_that_is_imported() -> None:
    """Imports must not use bare names, which only a bundler resolves."""
    for path in [*VENDOR.glob("*.js"), *VENDOR.parent.rglob("*.js")]:
        for target in re.findall(
            r"""\b(?:import|export)\b[\w\s{},*]*?\bfrom\s*["']([^"'\n]+)["']""", path.read_text()
        ):
            assert target.startswith("."), f"{path.name} imports {target}"
            assert (path.parent / target).resolve().is_file(), f"{path.name} imports {target}"
