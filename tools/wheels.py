"""Build the distributions of a release: `python -m tools.wheels DIRECTORY`. These are `jqmaster-sdk`, and `jqmaster`,
which requires it. Each is built as a wheel and, with `--sdist`, also as a source distribution.

`pip install .` makes one wheel of both packages, so that a checkout can be installed without an index. A release has
two wheels. So an application can install the SDK without the server, and no file belongs to two distributions.

Both are built from copies of their sources. In the copies, pyproject.toml has the version and the requirement of the
SDK, and the README has absolute links, because a package index shows it without the repository. The same sources always
give the same bytes.
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from tools.publication import ROOT, URLS

_VERSION: Final = re.compile(r'^VERSION(?:: Final)? = "([^"]+)"$', re.MULTILINE)
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")
_NEVER: Final = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info")
# The default time of all files, in seconds since 1970. It is in 1980, because archives cannot store earlier times.
_EPOCH: Final = "315532800"


def build(directory: Path) -> tuple[Path, Path]:
    """Build both wheels into `directory`, and return the wheel of the SDK and the wheel of the server."""
    with _staged() as (sdk, server):
        return _wheel(sdk, directory), _wheel(server, directory)


def build_all(directory: Path) -> list[Path]:
    """Build wheels and source distributions into `directory`."""
    with _staged() as both:
        wheels = [_wheel(folder, directory) for folder in both]
        return [*wheels, *(_sdist(folder, directory) for folder in both)]


def version() -> str:
    """Return the version of this checkout."""
    found = _VERSION.search((ROOT / "worker_sdk" / "transport" / "release.py").read_text("utf-8"))
    if found is None:
        raise ValueError('worker_sdk/transport/release.py must contain a line `VERSION = "…"`')
    return found[1]


def absolute(text: str, folder: str = "") -> str:
    """Return the Markdown text with absolute links in place of relative ones. `folder`: the folder of the text in the
    repository."""

    def replace(match: re.Match[str]) -> str:
        bang, label, target = match.groups()
        path, _, anchor = target.partition("#")
        path = os.path.normpath(f"{folder}/{path}".lstrip("/"))
        view = "raw" if bang else "tree" if (ROOT / path).is_dir() else "blob"
        return f"{bang}[{label}]({URLS['Repository']}/{view}/main/{path}{'#' + anchor if anchor else ''})"

    # The pattern does not match a link with a picture as its label. No document has such a link.
    return _LINK.sub(replace, text)


@contextmanager
def _staged() -> Iterator[tuple[Path, Path]]:
    """Yield folders with the sources of the SDK and of the server."""
    with tempfile.TemporaryDirectory(prefix="jqmaster-release-") as room:
        sdk, server = Path(room, "sdk"), Path(room, "server")
        shutil.copytree(ROOT / "worker_sdk", sdk, ignore=_NEVER)
        readme = (ROOT / "worker_sdk" / "README.md").read_text("utf-8")
        (sdk / "README.md").write_text(absolute(readme, "worker_sdk"), "utf-8")
        shutil.copytree(ROOT / "jqmaster", server / "jqmaster", ignore=_NEVER)
        shutil.copytree(ROOT / "openapi", server / "openapi")
        # Include these pages, because the tools of agents search them. Leave out the pictures.
        for page in (ROOT / "docs").rglob("*.md"):
            copy = server / "jqmaster" / "agents" / "documents" / page.relative_to(ROOT / "docs")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(page, copy)
        shutil.copy(ROOT / "LICENSE", server)
        (server / "README.md").write_text(absolute((ROOT / "README.md").read_text("utf-8")), "utf-8")
        (server / "pyproject.toml").write_text(_server_project(), "utf-8")
        os.environ.setdefault("SOURCE_DATE_EPOCH", _EPOCH)
        yield sdk, server


def _server_project() -> str:
    """Return the text of the server's pyproject.toml for a release."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    for old, new in (
        ('dynamic = ["version"]\n', f'version = "{version()}"\n'),
        ("\ndependencies = [\n", f'\ndependencies = [\n  "jqmaster-sdk=={version()}",\n'),
        ('packages = ["jqmaster", "worker_sdk"]\n', 'packages = ["jqmaster"]\n'),
        ('[tool.hatch.version]\npath = "worker_sdk/transport/release.py"\n', ""),
    ):
        if text.count(old) != 1:
            raise ValueError(f"pyproject.toml must contain once: {old.strip()}")
        text = text.replace(old, new)
    return text


def _wheel(folder: Path, directory: Path) -> Path:
    [built] = WheelBuilder(str(folder)).build(directory=str(directory), versions=["standard"])
    return Path(built)


def _sdist(folder: Path, directory: Path) -> Path:
    [built] = SdistBuilder(str(folder)).build(directory=str(directory), versions=["standard"])
    return Path(built)


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--sdist"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    into = Path(arguments[0]).resolve()
    for distribution in build_all(into) if "--sdist" in sys.argv else build(into):
        print(distribution)
