"""Disk faults injected into a process's system calls by strace."""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def faulty_fsync(pid: int, fault: str) -> Iterator[None]:
    """Give each fsync of the process this fault, in the form of strace's `inject` (`error=EIO`, `delay_enter=500000`).

    Skips the test where strace is not there or may not attach; AssertionError if nothing was synchronised meanwhile.
    """
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    with tempfile.NamedTemporaryFile("r") as log:
        calls = ["-e", "trace=fdatasync,fsync", "-e", f"inject=fdatasync,fsync:{fault}"]
        tracer = subprocess.Popen(
            ["strace", "-f", "-o", log.name, *calls, "-p", str(pid)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert tracer.stderr
            if "attached" not in (said := tracer.stderr.readline()):
                pytest.skip(f"strace may not attach here: {said}")
            yield
            said = Path(log.name).read_text()
            assert "INJECTED" in said or "DELAYED" in said, "the fault did not bite"
        finally:
            tracer.terminate()
            tracer.wait()
            assert tracer.stderr
            tracer.stderr.close()
