"""A pytest plugin: lists the branches of `jqmaster/domain` and `jqmaster/store` that none of their own tests takes, and
fails the run if there are too many.

Only those tests are measured, and not the random histories among them, so that the rest of a run keeps its speed.
"""

import importlib
import io
import pkgutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from coverage import Coverage, CoverageData

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ["jqmaster.domain", "jqmaster.store"]
OWN_TESTS: Final = (
    "tests/domain/", "tests/store/", "tests/contract/test_scripts.py", "tests/contract/test_wake.py",
)  # fmt: skip
# Measured, they would take most of the time, and each branch that they take needs a test that says why.
RANDOM_HISTORIES: Final = ("tests/store/jobs/test_stateful.py", "tests/store/jobs/test_gates_stateful.py")
_FOLDER: Final = "branch_coverage_folder"
# The exit code of a run that leaves too many branches out, whatever else failed: tests that pass later do not mend it.
NOT_COVERED: Final = 10


def made(data_file: Path | None = None) -> Coverage:
    """Return a measurement of the packages; what it leaves out is in pyproject.toml."""
    return Coverage(
        data_file, branch=True, source=[], source_pkgs=PACKAGES, config_file=str(ROOT / "pyproject.toml")
    )


_measured: Final = made()


def _read_all() -> None:
    """Import the packages while they are measured: the lines of a module's own run once.

    Tests are collected without a measurement, which would double the time of that.
    """
    _measured.start()
    try:
        for name in PACKAGES:
            for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
                importlib.import_module(module.name)
    finally:
        _measured.stop()


# No conftest.py has been read as yet, and so no module of the packages.
_read_all()


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        config.pluginmanager.register(Measurement(Path(worker[_FOLDER]) / worker["workerid"]))
        return
    folder = tempfile.TemporaryDirectory(prefix="branches-")
    config.add_cleanup(folder.cleanup)
    if not config.getoption("numprocesses", None):
        config.pluginmanager.register(Measurement(Path(folder.name) / "alone"))
    config.pluginmanager.register(Verdict(Path(folder.name)))


class Measurement:
    """Measures in the process that runs the tests."""

    def __init__(self, data_file: Path) -> None:
        self._data_file = data_file

    # Not their fixtures: those look through the whole store at the end, which takes a multiple of the time when it is
    # measured, and proves nothing of what a test asserts.
    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        is_measured = item.nodeid.startswith(OWN_TESTS) and not item.nodeid.startswith(RANDOM_HISTORIES)
        if is_measured:
            _measured.start()
        try:
            yield
        finally:
            if is_measured:
                _measured.stop()

    def pytest_sessionfinish(self) -> None:
        data = CoverageData(str(self._data_file))
        data.update(_measured.get_data())
        data.write()


class Verdict:
    """Puts the measurements of all processes together, and judges them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._report = ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[_FOLDER] = str(self._folder)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Judge when all processes have ended."""
        whole, report = made(self._folder / "whole"), io.StringIO()
        files = [str(file) for file in self._folder.iterdir()]
        if not files:
            return
        whole.combine(files)
        covered = whole.report(file=report, show_missing=True, skip_covered=True)
        self._report = report.getvalue()
        if covered < whole.config.fail_under:
            self._report += f"at least {whole.config.fail_under:g} % must be covered (pyproject.toml)\n"
            session.exitstatus = NOT_COVERED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._report:
            terminalreporter.section("branches of domain/ and store/ without a test of their own")
            terminalreporter.write(self._report)
