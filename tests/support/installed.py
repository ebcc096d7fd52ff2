"""Lends packages installed beside the tests, with their requirements, to otherwise empty environments."""

import importlib.metadata
import re
import subprocess
import sys
import venv
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement


def closure(roots: Iterable[str]) -> set[str]:
    """Return everything these requirements need on this machine, by name."""
    found: set[str] = set()
    waiting = [Requirement(root) for root in roots]
    while waiting:
        requirement = waiting.pop()
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        extras = requirement.extras or {""}
        if name in found or not _applies(requirement, {""}):
            continue
        found.add(name)
        for line in importlib.metadata.requires(name) or ():
            needed = Requirement(line)
            if _applies(needed, extras):
                waiting.append(needed)
    return found


def environment(directory: Path, wheels: Iterable[Path], requirements: Iterable[str]) -> Path:
    """Create a virtual environment with these wheels and links to their requirements. Return its Python."""
    venv.create(directory, symlinks=True)
    python = directory / "bin" / "python"
    packages = Path(_run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"))
    for name in closure(requirements):
        files = importlib.metadata.files(name)
        assert files, name
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (packages / top).symlink_to(Path(str(importlib.metadata.distribution(name).locate_file(top))))
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(python))
    _run(*pip, "install", "--no-index", "--no-compile", *map(str, wheels))
    _run(*pip, "check")
    return python


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)


def _run(*command: str | Path) -> str:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()
