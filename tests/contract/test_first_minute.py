"""A target of make installs no more than it needs, and nothing twice."""

import ast
import functools
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, PackageNotFoundError, distributions, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.each import for_each
from tests.support.installed import closure
from tools import installed, sbom

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LATER = {"whole with its requirements", "whole with its commands"}
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
OURS = {"jqmaster", "worker_sdk", "tests", "tools", "examples", "benchmarks"}
# The tests of these rooms need `.[test]` alone, but for those of the log archive, which start a server of S3; those of
# the others drive Django, databases, browsers and linters.
ROOMS = (
    "api", "chaos", "cli", "domain", "model", "net", "runtime", "service", "store", "upgrade",
    "sdk/masters", "sdk/pusher", "sdk/tasks", "sdk/testing", "sdk/transport", "sdk/worker",
)  # fmt: skip


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """Return the modules that a file imports, at its top or later, but for those within `if TYPE_CHECKING`."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case ast.Import(names=names):
                found.update(alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                found |= {module, *(f"{module}.{alias.name}" for alias in names)}
        waiting.extend(ast.iter_child_nodes(node))
    return frozenset(found)


@functools.cache
def of_the_extra_test() -> set[str]:
    return closure([*PROJECT["dependencies"], *EXTRAS["test"]])


@functools.cache
def names_of_packages() -> Mapping[str, list[str]]:
    return packages_distributions()


@functools.cache
def needed_by(path: Path) -> frozenset[tuple[str, str]]:
    """Return the packages of others that a test imports, itself or by its helpers, each with the file that does."""
    found, seen, waiting = set(), set(), [path]
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for module in imported(file):
            top = module.partition(".")[0]
            if top in ("tests", "tools"):
                place = ROOT / module.replace(".", "/")
                waiting += [one for one in (place.with_suffix(".py"), place / "__init__.py") if one.is_file()]
            elif top not in OURS and top not in sys.stdlib_module_names:
                found.add((top, str(file.relative_to(ROOT))))
    return frozenset(found)


@for_each("room", ROOMS)
def test_the_tests_of_a_room_need_the_extra_test_alone(room: str) -> None:
    there, names = of_the_extra_test(), names_of_packages()
    files = [ROOT / "tests" / "conftest.py", *(ROOT / "tests" / room).rglob("*.py")]
    missing = {
        (module, file)
        for path in files
        for module, file in needed_by(path)
        # A test that can do without it calls `pytest.importorskip` instead of importing it.
        if not {installed.normalized(name) for name in names.get(module, ())} & there
    }
    assert missing == set()


def test_the_product_is_a_third_of_what_development_needs() -> None:
    product = closure(PROJECT["dependencies"])
    tests = closure(installed.requirements(PROJECT, ["test"]))
    assert len(product) + len(("jqmaster", "pip", "setuptools")) <= 60
    assert product < tests
    assert len(tests) < 100


def test_every_version_that_development_installs_is_pinned() -> None:
    text = (ROOT / "constraints.txt").read_text()
    pinned = set(sbom.pinned(ROOT / "constraints.txt"))
    here = {installed.normalized(one.name) for one in distributions()}
    every = installed.requirements(PROJECT, EXTRAS)
    assert closure(one for one in every if installed.normalized(Requirement(one).name) in here) <= pinned
    # The user who installs chooses the index.
    assert "://" not in text
    assert not re.search(r"^\s*-", text, re.MULTILINE)


def plan(directory: Path, target: str) -> str:
    """Return the packages that `make TARGET` would install in a checkout whose files are all older than the stamps."""
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", f"VENV={directory}", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    installs = re.findall(r"pip install .*--editable '\.([^']*)'", done.stdout)
    assert len(installs) <= 1, done.stdout
    return installs[0] if installs else "nothing"


@pytest.mark.parametrize(
    ("stamps", "run", "rooms", "setup"),
    [
        ((), "", "[test]", "[dev]"),
        ((".product",), "nothing", "[test]", "[dev]"),
        ((".product", ".rooms"), "nothing", "nothing", "[dev]"),
        ((".product", ".rooms", ".installed"), "nothing", "nothing", "nothing"),
    ],
    ids=["nothing", "after run", "after rooms", "after setup"],
)
def test_a_target_installs_what_it_needs_and_nothing_twice(
    stamps: tuple[str, ...], run: str, rooms: str, setup: str, tmp_path: Path
) -> None:
    for name in stamps:
        (tmp_path / name).touch()
    assert (plan(tmp_path, "run"), plan(tmp_path, "setup-rooms"), plan(tmp_path, "setup")) == (
        run,
        rooms,
        setup,
    )


@pytest.mark.parametrize(
    ("target", "stamps"),
    [
        ("run", {".product"}),
        ("setup-rooms", {".product", ".rooms"}),
        ("setup", {".product", ".rooms", ".installed"}),
    ],
)
def test_an_installed_target_counts_for_the_smaller_ones(
    target: str, stamps: set[str], tmp_path: Path
) -> None:
    done = subprocess.run(
        ["make", "--dry-run", f"VENV={tmp_path}", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    touched = {
        Path(one).name for line in re.findall(r"^touch (.*)", done.stdout, re.M) for one in line.split()
    }
    assert touched == stamps


ENVIRONMENT = {"aa": "1.2", "bb": "2.0", "cc": "3.0"}
STATED = ["aa>=1.0", "never; python_version < '3'", "bb>=2.0; extra == 'test'"]
PYPROJECT = """
[project]
name = "whole"
dependencies = ["aa>=1.1", "never; python_version < '3'"]
scripts = {whole = "whole:main"}
optional-dependencies = {test = ["bb>=2.0"], dev = ["whole[test]", "cc"]}
"""


@dataclass
class Distribution:
    """The part of an installed distribution that is looked at."""

    name: str
    version: str
    requires: list[str] = field(default_factory=list)
    entry_points: tuple[EntryPoint, ...] = ()


@pytest.mark.parametrize(
    ("pyproject", "pins", "extras", "missing"),
    [
        (PYPROJECT, "aa==1.2\nzz==9", ["dev"], ""),
        (PYPROJECT, "aa==1.3", [], "aa==1.3 (here: 1.2)"),
        (PYPROJECT.replace("aa>=1.1", "aa>=1.3"), "", [], "aa>=1.3 (here: 1.2)"),
        (PYPROJECT.replace('"bb>=2.0"', '"dd"'), "", ["dev"], "dd (here: None)"),
        (PYPROJECT.replace('"bb>=2.0"', '"dd"'), "", [], ""),
        (PYPROJECT.replace('"aa>=1.1"', '"aa", "bb"'), "", [], "whole with its requirements"),
        (PYPROJECT.replace("whole:main", "whole:other"), "", [], "whole with its commands"),
        (PYPROJECT.replace('"whole"', '"half"'), "", [], "half"),
    ],
)
def test_an_installed_package_is_not_installed_again(
    pyproject: str,
    pins: str,
    extras: list[str],
    missing: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "pyproject.toml").write_text(pyproject)
    (tmp_path / "constraints.txt").write_text(pins)
    command = EntryPoint("whole", "whole:main", "console_scripts")
    whole = Distribution("whole", "1", STATED, (command,))
    others = [Distribution(name, version) for name, version in ENVIRONMENT.items()]

    def distribution(name: str) -> Distribution:
        if name != "whole":
            raise PackageNotFoundError(name)
        return whole

    monkeypatch.setattr(importlib.metadata, "distributions", lambda: [whole, *others])
    monkeypatch.setattr(importlib.metadata, "distribution", distribution)
    elsewhere = installed.lacking(tmp_path, extras)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installed.lacking(tmp_path, extras) == missing
    # The same from another checkout, whose environment this is not.
    assert elsewhere == (missing if missing not in {"", *LATER} else "whole of this checkout")


def test_the_error_names_the_packages_that_an_environment_lacks() -> None:
    done = subprocess.run(
        [sys.executable, "tools/installed.py", "test"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
