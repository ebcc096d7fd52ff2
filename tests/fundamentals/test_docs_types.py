"""The code in the documents passes a strict type checker, as a user would run it."""

import os
import subprocess
import sys
from pathlib import Path

from tests.fundamentals.test_pages import OTHERS, PAGES
from tests.support.pages import ROOT, PageFolder
from tools.sdk_reference import examples

# Handlers without annotations, which would distract there; their bodies are checked all the same.
PLAIN = {"docs/tutorial.md"}
# Django has no types, a worker in one file has none on purpose, and the types of these libraries take half a minute to
# read. The blocks run all the same.
WITHOUT_TYPES = {"docs/django.md", "docs/outbox.md", "docs/worker_protocol.md", "docs/web_servers.md"}
LARGE = ("django", "opentelemetry", "sqlalchemy")


def test_the_examples_pass_mypy_strict(tmp_path: Path) -> None:
    files, folders = [], []
    for page in sorted({*PAGES, *OTHERS} - WITHOUT_TYPES):
        folder = PageFolder(tmp_path / page.removesuffix(".md").replace("/", "_"), page)
        if page in PLAIN:
            for file in folder.files:
                file.write_text(
                    f"# mypy: allow-untyped-defs, allow-untyped-calls\n{file.read_text('utf-8')}", "utf-8"
                )
        # Two pages may have an app.py; a program that names no file has its page in its name.
        files += folder.files
        folders.append(str(folder.folder))
    shown = [str(one.file) for one in examples() if not any(name in one.code for name in LARGE)]
    done = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--follow-imports", "silent",
            "--cache-dir", str(ROOT / ".mypy_cache" / "docs"), "--check-untyped-defs",
            *map(str, sorted(files)), *shown,
        ],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout.replace(f"{tmp_path}/", "") + done.stderr
