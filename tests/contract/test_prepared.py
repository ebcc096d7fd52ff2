"""A command in a fork of a prepared process ends as one that Python starts."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import prepared

ENDS = {
    "nothing": "",
    "no code": "raise SystemExit",
    "a code": "sys.exit(3)",
    "a code of more than a byte": "sys.exit(256 + 7)",
    "a text": "sys.exit('why')",
    "a fault": "raise ValueError('why')",
    "an interrupt": "raise KeyboardInterrupt",
    "text without a line end": "print('half', end='')",
    "a thread": "threading.Timer(0.05, print, ['later']).start()",
    "a function at the end": "atexit.register(print, 'at the end')",
}
IMPORTS = "import atexit, sys, threading\n"


def _ended(program: str, *, is_prepared: bool, directory: Path, is_read: bool = True) -> tuple[int, str, str]:
    """Run a program as a module, and return its exit code, its output and the last line of its errors."""
    (directory / "program.py").write_text(IMPORTS + program)
    out, err = directory / "out", directory / "err"
    reader, writer = os.pipe()
    os.close(reader)
    with out.open("wb") as output, err.open("wb") as errors:
        files: dict[str, Any] = {"stdout": output.fileno() if is_read else writer, "stderr": errors.fileno()}
        process: prepared.Prepared | subprocess.Popen[bytes]
        if is_prepared:
            process = prepared.start(["-m", "program"], cwd=directory, env=os.environ, **files)
        else:
            process = subprocess.Popen([sys.executable, "-m", "program"], cwd=directory, **files)
        os.close(writer)
        code = process.wait(60)
    return code, out.read_text(), "".join(err.read_text().splitlines()[-1:])


@pytest.mark.parametrize("end", ENDS)
def test_it_ends_like_python(end: str, tmp_path: Path) -> None:
    found, expected = (_ended(ENDS[end], is_prepared=how, directory=tmp_path) for how in (True, False))
    assert found == expected


def test_output_that_nobody_reads_is_an_error(tmp_path: Path) -> None:
    found, expected = (
        _ended("print('lost')", is_prepared=how, directory=tmp_path, is_read=False)[0]
        for how in (True, False)
    )
    assert found == expected != 0


def test_a_signal_ends_it(tmp_path: Path) -> None:
    program = "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)"
    code, _, _ = _ended(program, is_prepared=True, directory=tmp_path)
    assert code == -signal.SIGTERM


def test_a_resource_that_it_leaves_open_warns(tmp_path: Path) -> None:
    program = (
        "import warnings\nwarnings.simplefilter('always')\ndef left():\n    file = open('/dev/null')\n"
        "    circle = [file]\n    circle.append(circle)\nleft()"
    )
    _, _, error = _ended(program, is_prepared=True, directory=tmp_path)
    assert "ResourceWarning" in (tmp_path / "err").read_text(), error
