"""The web UI's bundle was built from the sources beside it. Their digest in the bundle shows this without Node."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jqmaster.api.http.static import is_bundle_current

ROOT = Path(__file__).parents[2]
WEB = ROOT / "jqmaster" / "web"
TOOLS = ROOT / "tools" / "web"


@pytest.mark.req("J15")
def test_the_bundle_was_made_of_the_present_sources() -> None:
    found = {
        f"/{path.relative_to(WEB).as_posix()}": path.read_bytes() for path in WEB.rglob("*") if path.is_file()
    }
    assert is_bundle_current(found), "run: make bundle"


@pytest.mark.req("J15")
@pytest.mark.skipif(
    not shutil.which("node") or not (TOOLS / "node_modules" / "esbuild").exists(),
    reason="needs node and the packages of tools/web",
)
def test_the_bundle_is_what_its_sources_make() -> None:
    check = subprocess.run(
        ["node", "bundle.js", "--check"], cwd=TOOLS, capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stderr


def test_the_page_names_the_files_of_the_bundle_by_their_content() -> None:
    page = (WEB / "bundle" / "index.html").read_text()
    named = dict(re.findall(r"bundle/([\w.]+)\?v=([0-9a-f]+)", page))
    assert named == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for path in (WEB / "bundle").iterdir()
        if path.suffix in (".js", ".css")
    }


PARTS = (
    "<!doctype",
    "<html",
    "<head>",
    "<title>",
    '<script type="module"',
    "</head>",
    "<body>",
    'id="app"',
    "</html>",
)


@pytest.mark.parametrize("folder", [WEB, WEB / "bundle"], ids=["sources", "bundle"])
def test_the_page_has_each_part_once(folder: Path) -> None:
    """Git merges two pages without a conflict into one that has a part twice."""
    page = (folder / "index.html").read_text()
    assert {part: page.count(part) for part in PARTS} == dict.fromkeys(PARTS, 1)
    loaded = re.findall(r"""(?:src|href)="([^"?]+)""", page)
    assert len(loaded) == len(set(loaded))
    assert page.count("<script") == 2


def test_the_bundle_imports_nothing_but_the_languages() -> None:
    script = (WEB / "bundle" / "app.js").read_text()
    assert re.findall(r"""^import[\s{*"']""", script, re.MULTILINE) == []
