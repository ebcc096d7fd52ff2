"""A search over the documents of jqmaster. A release has them in the folder of this file, a checkout in `docs/`."""

import functools
import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PLACES: Final = (Path(__file__).parent / "documents", Path(__file__).parents[2] / "docs")
MAX_FOUND: Final = 20
_EXCERPT: Final = 700
_HEADING: Final = re.compile(r"^(#{1,3}) +(.+?) *$")
_WORD: Final = re.compile(r"[a-z0-9][a-z0-9_.-]*[a-z0-9]|[a-z0-9]")
# A word in a heading counts as much as this many words in the text.
_HEADING_WEIGHT: Final = 6
_K: Final = 1.4
_B: Final = 0.6


@dataclass(frozen=True, slots=True)
class _Section:
    page: str
    heading: str
    text: str
    words: Counter[str]
    length: int


def search(query: str) -> list[dict[str, Any]] | None:
    """Return the sections that match the words best, the best first. Return None if the documents are not
    installed."""
    sections = _sections()
    if not sections:
        return None
    mean = sum(one.length for one in sections) / len(sections)
    weights = {}
    for word in set(_words(query)):
        having = sum(word in one.words for one in sections)
        weights[word] = math.log(1 + (len(sections) - having + 0.5) / (having + 0.5)) if having else 0.0
    scored = [(_score(one, weights, mean), one) for one in sections]
    best = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: (-pair[0], pair[1].page))
    return [
        {"document": f"docs/{one.page}", "section": one.heading, "text": _excerpt(one.text)}
        for _, one in best[:MAX_FOUND]
    ]


def _score(section: _Section, weights: dict[str, float], mean: float) -> float:
    found = 0.0
    for word, weight in weights.items():
        if count := section.words.get(word, 0):
            found += weight * count * (_K + 1) / (count + _K * (1 - _B + _B * section.length / mean))
    return found


@functools.cache
def _sections() -> tuple[_Section, ...]:
    folder = next((place for place in PLACES if (place / "index.md").is_file()), None)
    if folder is None:
        return ()
    return tuple(
        section
        for path in sorted(folder.rglob("*.md"))
        for section in _split(path.relative_to(folder).as_posix(), path.read_text("utf-8"))
    )


def _split(page: str, text: str) -> list[_Section]:
    """Return the sections of a page, each with its parent headings."""
    found: list[_Section] = []
    path: list[str] = []
    lines: list[str] = []
    is_code = False

    def end() -> None:
        body, heading = "\n".join(lines).strip(), " › ".join(path)
        if body:
            words = Counter(_words(body))
            for word in _words(heading):
                words[word] += _HEADING_WEIGHT
            found.append(_Section(page, heading, body, words, sum(words.values())))
        lines.clear()

    for line in text.splitlines():
        is_code ^= line.lstrip().startswith("```")
        if not is_code and (match := _HEADING.match(line)):
            end()
            del path[len(match[1]) - 1 :]
            path.append(match[2])
        else:
            lines.append(line)
    end()
    return found


def _words(text: str) -> list[str]:
    """Return the words without their grammatical endings."""
    return [_stem(word) for word in _WORD.findall(text.lower())]


def _stem(word: str) -> str:
    for ending in ("ies", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word


def _excerpt(text: str) -> str:
    return text if len(text) <= _EXCERPT else text[:_EXCERPT].rsplit(" ", 1)[0] + " …"
