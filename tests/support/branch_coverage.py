"""A pytest plugin: lists the branches of `jqmaster/domain` and `jqmaster/store` that their own tests do not take, and
fails the run if there are too many.

It measures only those tests, without the largest ones, so that the rest of the run keeps its speed.
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
# Random histories, and every minute around every change of clocks. Measuring these would take most of the time, and
# each branch that they take needs its own test that explains it.
NOT_MEASURED: Final = (
    "tests/store/jobs/test_stateful.py", "tests/store/jobs/test_gates_stateful.py",
    "tests/domain/definitions/test_clock_changes.py::test_every_local_minute",
)  # fmt: skip
_FOLDER: Final = "branch_coverage_folder"
# The exit code of a run that misses too many branches, whatever else failed. Later passing tests do not fix it.
NOT_COVERED: Final = 10


def made(data_file: Path | None = None) -> Coverage:
    """Return a measurement of the packages. pyproject.toml says what it leaves out."""
    return Coverage(
        data_file, branch=True, source=[], source_pkgs=PACKAGES, config_file=str(ROOT / "pyproject.toml")
    )


_measured: Final = made()


def _read_all() -> None:
    """Import the packages under measurement, because module-level lines run only once.

    Test collection is not measured, because that would double its time.
    """
    _measured.start()
    try:
        for name in PACKAGES:
            for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
                importlib.import_module(module.name)
    finally:
        _measured.stop()


# Import now, before any conftest.py imports modules of the packages.
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
    """Measure in the process that runs the tests."""

    def __init__(self, data_file: Path) -> None:
        self._data_file = data_file

    # Leave fixtures out. They check the whole store at the end, which takes several times as long when measured and
    # does not prove what a test asserts.
    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        is_measured = item.nodeid.startswith(OWN_TESTS) and not item.nodeid.startswith(NOT_MEASURED)
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
    """Combine the measurements of all processes and judge them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._report = ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[_FOLDER] = str(self._folder)

    # In a run without other processes, the measurement of this one is written first.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Judge after all processes have ended."""
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
