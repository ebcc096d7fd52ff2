"""Links from a job to other systems, such as its lines in a log."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

# The values of a job that a link may contain. The last two are in milliseconds since 1970.
FIELDS: Final = ("job_id", "name", "attempt", "created_ms", "finished_ms")
MAX_LABEL: Final = 40
MAX_URL: Final = 1_000
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_URL: Final = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class LinkTemplate:
    """One link: a label, and an address with placeholders such as `{job_id}`."""

    label: str
    url: str

    @classmethod
    def parse(cls, text: str) -> "LinkTemplate":
        """Return the template in `LABEL=URL`, where `_` in the label stands for a blank. Raise ValueError."""
        label, sign, url = text.partition("=")
        label = label.replace("_", " ").strip()
        if not sign or not label or len(label) > MAX_LABEL or not label.isprintable():
            raise ValueError(
                f"{text[:100]}: expected LABEL=URL, with a label of at most {MAX_LABEL} characters"
            )
        if len(url) > MAX_URL or not _URL.fullmatch(url):
            raise ValueError(
                f"{label}: the URL must have at most {MAX_URL} printable characters of ASCII, and no blank"
            )
        rest = _PLACEHOLDER.sub("0", url)
        if "{" in rest or "}" in rest:
            raise ValueError(f"{label}: each {{ needs a }} after it")
        for name in _PLACEHOLDER.findall(url):
            if name not in FIELDS:
                raise ValueError(f"{label}: {{{name[:40]}}} is not one of {', '.join(FIELDS)}")
        try:
            parts = urlsplit(rest)
            # The host must be fixed, so that values of a job cannot change it.
            is_fixed = "{" not in url.split("/", 3)[2] if url.count("/") >= 2 else False
        except ValueError:
            raise ValueError(f"{label}: the URL cannot be parsed") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or not is_fixed:
            raise ValueError(f"{label}: the URL must begin with http:// or https:// and a host")
        return cls(label, url)

    def filled(self, fields: Mapping[str, object]) -> str:
        """Return the address for a job. Values of the job cannot change the host or the directory."""
        return _PLACEHOLDER.sub(lambda match: quote(str(fields[match[1]]), safe=""), self.url)


def links_of(templates: Sequence[str], fields: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the label and address of each link of a job, from checked templates. Leave out a link if a value of
    the job, such as the name `..`, would change its directory."""
    filled = ((one, one.filled(fields)) for one in map(LinkTemplate.parse, templates))
    return [(one.label, url) for one, url in filled if _dots_in(url) == _dots_in(one.url)]


def _dots_in(url: str) -> int:
    """Return how many segments of the path are `.` or `..`. Percent-encoded dots count, too, because browsers
    treat them in the same way."""
    return sum(segment in (".", "..") for segment in re.split(r"[?#]", url, maxsplit=1)[0].split("/"))
