"""Check whether an environment already has everything that an extra of this checkout needs. If so, pip need not run.

`python tools/installed.py test` checks the extra `test`. The exit code is 0 if two things hold: every requirement is
installed in the version of constraints.txt, and the checkout itself is installed with its present requirements and
commands. Otherwise, the exit code is 1. The program needs only the standard library and pip.
"""

import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(project: dict[str, Any], extras: Iterable[str]) -> Iterator[str]:
    """Yield the requirements of the project and of these extras. An extra may include other extras of the project."""
    yield from project["dependencies"]
    for extra in extras:
        for line in project["optional-dependencies"][extra]:
            if own := re.match(rf"{project['name']}\[([^]]*)\]", line):
                yield from requirements(project, (one.strip() for one in own[1].split(",")))
            else:
                yield line


def lacking(root: Path, extras: Iterable[str]) -> str:
    """Return the first missing requirement. Empty: nothing is missing."""
    from pip._vendor.packaging.requirements import Requirement

    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    here = {normalized(one.name): one.version for one in importlib.metadata.distributions()}
    for line in requirements(project, extras):
        needed = Requirement(line)
        if needed.marker and not needed.marker.evaluate():
            continue
        version = here.get(normalized(needed.name))
        if version is None or not needed.specifier.contains(version, prereleases=True):
            return f"{line} (here: {version})"
    for name, version in re.findall(r"^([\w.-]+)==(\S+)$", (root / "constraints.txt").read_text(), re.M):
        if here.get(normalized(name), version) != version:
            return f"{name}=={version} (here: {here[normalized(name)]})"
    return unlike(root, project)


def unlike(root: Path, project: dict[str, Any]) -> str:
    """Return how the installed project differs from the checkout. Empty: no difference matters."""
    from pip._vendor.packaging.requirements import Requirement

    name = str(project["name"])
    try:
        installed = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return name
    # An editable installation is an entry of sys.path. The entry may belong to another checkout.
    if root.resolve() not in {Path(path).resolve() for path in sys.path}:
        return f"{name} of this checkout"
    stated = {Requirement(line).name for line in installed.requires or () if "extra ==" not in line}
    # Compare only the names, because the caller has checked the versions.
    if stated != {Requirement(line).name for line in project["dependencies"]}:
        return f"{name} with its requirements"
    commands = {one.name: one.value for one in installed.entry_points if one.group == "console_scripts"}
    return "" if commands == project["scripts"] else f"{name} with its commands"


def main() -> None:
    """Check the extras that the command line names. Exit with 1 if something is missing, and otherwise with 0."""
    try:
        missing = lacking(ROOT, sys.argv[1:])
    except ImportError as exc:
        missing = str(exc)
    if missing:
        print(f"not installed: {missing}", file=sys.stderr)
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
