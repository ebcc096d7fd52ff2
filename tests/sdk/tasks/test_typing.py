"""Type checkers verify task calls: correct ones pass, and others are errors."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
MARK = "# wrong"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with the right and wrong uses, outside the repository, like a user's own."""
    shutil.copy(HERE / "right_uses.py", tmp_path / "right_uses.py")
    shutil.copy(HERE / "wrong_uses.txt", tmp_path / "wrong_uses.py")
    return tmp_path


def marked(project: Path) -> set[tuple[str, int]]:
    lines = (project / "wrong_uses.py").read_text("utf-8").splitlines()
    found = {("wrong_uses.py", number) for number, line in enumerate(lines, 1) if line.endswith(MARK)}
    assert len(found) > 20
    return found


def errors(output: str) -> set[tuple[str, int]]:
    """Return the file and line of each error. mypy writes `FILE:LINE: error`, pyright `FILE:LINE:COLUMN - error`."""
    return {
        (Path(file).name, int(line))
        for file, line in re.findall(r"(\S+\.py):(\d+)(?::\d+ -|:) error", output)
    }


def checked(project: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command, "right_uses.py", "wrong_uses.py"],
        capture_output=True, text=True, cwd=project, check=False, env={**os.environ, "MYPYPATH": str(ROOT)},
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.timeout(300)
@pytest.mark.req("S8")
def test_mypy_finds_each_wrong_use_and_no_other(project: Path) -> None:
    output = checked(
        project, "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(project / "cache")
    )
    assert errors(output) == marked(project), output


@pytest.mark.timeout(300)
@pytest.mark.req("S8")
def test_pyright_finds_each_wrong_use_and_no_other(project: Path) -> None:
    pytest.importorskip("pyright", reason="pyright is not installed: pip install pyright")
    if shutil.which("node") is None:
        pytest.skip("pyright runs on node, which is not installed")
    settings = {"extraPaths": [str(ROOT)], "typeCheckingMode": "strict"}
    (project / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    output = checked(project, "pyright", "--pythonpath", sys.executable)
    if "errors" not in output:
        pytest.skip(f"pyright could not be started: {output[-300:]}")
    assert errors(output) == marked(project), output
