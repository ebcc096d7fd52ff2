"""Every block of Python in the documents works as the file that it is.

`tests/system/test_first_pages.py` runs README.md and docs/tutorial.md, and `OTHERS` names the tests of pages that
need more than a master. `DECLARED_ONLY` are blocks whose programs are started by hand: they are imported, and their
types are checked.
"""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from tests.support import real_time
from tests.support.pages import ROOT, PageFolder, blocks, documents
from worker_sdk import Worker, configure
from worker_sdk.tasks.client import process_pushers

OTHERS = {
    "README.md": "tests/system/test_first_pages.py",
    "docs/tutorial.md": "tests/system/test_first_pages.py",
    "docs/web_servers.md": "tests/fundamentals/test_web_frameworks.py",
    "docs/worker_protocol.md": "tests/sdk/worker/test_worker_protocol_doc.py",
    "docs/django.md": "tests/system/test_django_site.py",
    "docs/flows.md": "tests/fundamentals/test_flow_docs.py",
    "docs/middleware.md": "tests/fundamentals/test_middleware_docs.py",
    "docs/outbox.md": "tests/fundamentals/test_outbox_docs.py",
    "worker_sdk/README.md": "tests/fundamentals/test_docs.py",
}
# Blocks of these pages push jobs; the worker of their first block runs them.
AT_A_MASTER = (
    "docs/coming_from_celery.md", "docs/coming_from_rq_and_sidekiq.md", "docs/events.md", "docs/unique.md",
)  # fmt: skip
# The generated pages show signatures; tests/fundamentals/test_reference_examples.py runs their examples.
PAGES = [
    name
    for page in documents()
    if page.parent.name != "sdk" and (name := str(page.relative_to(ROOT))) not in OTHERS and blocks(name)
]


def test_every_page_with_code_has_a_test() -> None:
    for test in OTHERS.values():
        assert (ROOT / test).is_file(), test
    assert set(AT_A_MASTER) <= set(PAGES)
    assert len(PAGES) > len(AT_A_MASTER)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in AT_A_MASTER])
def test_every_block_runs_as_a_file(page: str, tmp_path: Path) -> None:
    folder = PageFolder(tmp_path, page)
    with folder.importable():
        for file in folder.files:
            folder.run(file)


@pytest.mark.parametrize("page", AT_A_MASTER)
@real_time.MASTER
async def test_every_block_runs_as_a_file_beside_a_master(
    page: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JQMASTER_URL", url)
    folder = PageFolder(tmp_path, page, url)

    def run_all(files: list[Path]) -> None:
        for file in files:
            folder.run(file)

    first: dict[str, Any] = await asyncio.to_thread(folder.run, folder.files[0])
    worker = first.get("worker")
    try:
        with folder.importable():
            async with worker.running() if isinstance(worker, Worker) else contextlib.nullcontext():
                await asyncio.to_thread(run_all, folder.files[1:])
    finally:
        process_pushers.get().sync_pusher().close()
        configure()
    if "celery" in page:
        assert capsys.readouterr().out == "42-320.webp\n"
