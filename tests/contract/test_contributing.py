"""The lists of CONTRIBUTING.md name files, folders and names that are there, and every folder has its place."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.each import for_each

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PLACES = TEXT.partition("## Where things belong\n")[2].partition("## How to add")[0]
LISTS = TEXT.partition("## How to add")[2].partition("\n## ")[0]
FILE = re.compile(r"[\w./+-]+\.(?:py|lua|js|ts|md|yml)|[\w./]+/")
NAME = re.compile(r"[A-Za-z_]\w*")
# Words in code spans that stand for what the reader chooses, or are commands and values.
CHOSEN = ("NAME", "SECTION", "+short-slug")
# Folders in which a list may begin a path that it shortens.
BASES = (ROOT, ROOT / "jqmaster", ROOT / "clients/typescript", ROOT / "worker_sdk")


def lists() -> Iterator[tuple[str, str]]:
    """Yield the title and the text of each list."""
    for piece in re.split(r"\n(?=(?:<a [^>]*></a>)?\*\*)", LISTS):
        if found := re.match(r"(?:<a [^>]*></a>)?\*\*([^*]+)\*\*", piece):
            yield found[1], piece


def files_of(text: str) -> tuple[list[Path], list[str]]:
    """Return the files that a text names, and the names of files that are not there. A bare name means a file beside
    the one that was named before, or beside any earlier one."""
    found, missing = list[Path](), list[str]()
    for span in re.findall(r"`([^`]+)`", text):
        if not FILE.fullmatch(span) or any(word in span for word in CHOSEN):
            continue
        beside = [path if path.is_dir() else path.parent for path in reversed(found)]
        places = [base / span for base in (*BASES, *beside)]
        there = next((place for place in places if place.exists()), None)
        if there is None:
            missing.append(span)
        else:
            found.append(there)
    return found, missing


@for_each("title, text", list(lists()))
def test_every_file_of_a_list_exists_and_holds_the_names_that_the_list_gives(title: str, text: str) -> None:
    found, missing = files_of(text)
    assert missing == [], title
    held = "\n".join(path.read_text("utf-8") for path in found if path.is_file())
    held += "\n".join(
        file.read_text("utf-8") for path in found if path.is_dir() for file in path.rglob("*.py")
    )
    names = {
        span
        for span in re.findall(r"`([^`]+)`", text)
        if NAME.fullmatch(span) and (span[0].isupper() or "_" in span) and span not in CHOSEN
    }
    assert {name for name in names if not re.search(rf"\b{name}\b", held)} == set(), title


def test_the_number_of_files_in_a_table_is_that_of_its_heading() -> None:
    said = {title: re.search(r"\((\d+) files?\b", text) for title, text in lists()}
    assert [title for title, number in said.items() if number is None] == []
    for title, text in lists():
        if rows := re.findall(r"^\| (`.+?`) \| ", text, re.M):
            listed = [span for row in rows for span in re.findall(r"`([^`]+)`", row)]
            number = said[title]
            assert number is not None
            assert (title, int(number[1])) == (title, len(listed))


def test_every_package_and_every_folder_has_its_place() -> None:
    found, missing = files_of(PLACES)
    assert missing == []
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if not listed.stdout:
        return  # an exported tree has no index
    folders = {ROOT / Path(line).parts[0] for line in listed.stdout.splitlines() if "/" in line}
    folders |= {path.parent for path in (ROOT / "jqmaster").glob("*/__init__.py")}
    folders = {folder for folder in folders if not folder.name.startswith(".")} - {ROOT / "jqmaster"}
    assert {str(one.relative_to(ROOT)) for one in folders - set(found)} == set()


def test_a_missing_file_is_found() -> None:
    text = (
        "`jqmaster/errors.py`, `clock.py`, `+short-slug.SECTION.md`, `jqmaster/no_such.py` and `domain/jobs/`"
    )
    found, missing = files_of(text)
    assert [str(path.relative_to(ROOT)) for path in found] == [
        "jqmaster/errors.py",
        "jqmaster/clock.py",
        "jqmaster/domain/jobs",
    ]
    assert missing == ["jqmaster/no_such.py"]
