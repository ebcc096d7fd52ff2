"""The TypeScript package, where node and its packages are there."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

PACKAGE: Final = Path(__file__).parents[2] / "clients" / "typescript"
_TSC: Final = PACKAGE / "node_modules" / "typescript" / "bin" / "tsc"


def missing() -> str | None:
    """Return the tool that this machine lacks to build and run the package; None if it lacks none."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            return program
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, version.strip().lstrip("v").split(".")[:2])) < (20, 3):
        return f"Node 20.3 or newer (this is {version.strip()})"
    return None if _TSC.exists() else "the npm packages of clients/typescript (make check installs them)"


NEEDED: Final = pytest.mark.skipif(
    missing() is not None, reason=f"the TypeScript package is not tested here: there is no {missing()}"
)


def run(*command: str, cwd: Path = PACKAGE, **env: str) -> str:
    """Run a program, and return what it prints. AssertionError with all of it if it fails."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1", **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-6000:]}{done.stderr[-6000:]}"
    return done.stdout


def build() -> None:
    """Compile the package, its tests and its examples, unless that was done since the last change."""
    run("node", str(_TSC), "--build")


def manifest() -> dict[str, Any]:
    """Return package.json."""
    document: dict[str, Any] = json.loads((PACKAGE / "package.json").read_text())
    return document
