"""An HTTP target: the jobs that it does, the requests that it gets, and the meaning of its answers."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from urllib.parse import quote, urlsplit

from jqmaster.domain.jobs.reserved_names import RESERVED_PREFIX
from jqmaster.domain.matching.checks import Loc, MatcherError
from jqmaster.domain.matching.glob import compile_glob
from jqmaster.domain.matching.paths import parse_path
from jqmaster.domain.notices.webhook import url_fault

# An HTTP status such as 404, or a class such as `2xx`.
Status = int | str

# The tags and labels of a target's workers contain its name.
NAME_PATTERN: Final = r"^[A-Za-z0-9_.:-]{1,100}$"
# These names are reserved, because they have a special meaning in a URL path.
RESERVED_NAMES: Final = frozenset({".", ".."})
# The number of targets is limited, because each master registers a worker for each target.
MAX_TARGETS: Final = 500
MAX_NAMES: Final = 100
# Maximum number of names that a target serves by its patterns at one time. A claim looks at each of these names.
MAX_SERVED: Final = 1_000
MAX_NAME_CHARS: Final = 200
MAX_RUNNING: Final = 5_000
DEFAULT_RUNNING: Final = 50
MAX_HEADERS: Final = 50
MAX_HEADER_CHARS: Final = 4_096
MAX_HOSTS: Final = 100
MAX_STATUSES: Final = 50
MAX_TIMEOUT_S: Final = 86_400
MAX_NOT_READY_S: Final = 366 * 86_400
DEFAULT_NOT_READY_S: Final = 3 * 86_400
MAX_DESCRIPTION: Final = 500
DEFAULT_OK: Final[tuple[Status, ...]] = ("2xx",)
DEFAULT_FINAL: Final[tuple[Status, ...]] = (400, 404, 410, 422)
METHODS: Final = ("POST", "PUT", "PATCH", "GET", "DELETE")
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
# How long requests are also signed with the previous secret after a rotation.
ROTATION_MS: Final = 24 * 3600 * 1000
# Shown instead of the value of a header, which may be a credential.
HIDDEN: Final = "…"

_PATTERN: Final = re.compile(r"[A-Za-z0-9_.:/*?\[\]!-]{1,200}")
_SETS: Final = re.compile(r"(?:[^\[\]!]|\[!?[^\[\]!]+\])+")
_WILD: Final = frozenset("*?[")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_FIELD_VALUE: Final = re.compile(r"[\x20-\x7e]*")
_CLASS: Final = re.compile(r"[2-5]xx")
# Allows all hosts.
_ANY_HOST: Final = "*"
_HOST: Final = re.compile(r"\*|(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]{0,250}[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\]")
_PLACEHOLDER: Final = re.compile(r"\{[^{}]*\}?|\}")
_PLACEHOLDERS: Final = frozenset({"{name}", "{job_id}"})
# Header fields that the master writes itself, and fields that concern only the connection.
_OWN_FIELDS: Final = frozenset(
    {"host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection", "keep-alive",
     "upgrade", "te", "trailer", "expect", "accept-encoding", "idempotency-key", "traceparent", "tracestate",
     "user-agent"}
)  # fmt: skip
_OWN_PREFIXES: Final = ("jq-", "webhook-", "proxy-")


class TargetError(ValueError):
    """A target that is refused. `loc`: the path to the faulty part; `msg`: the rule and the remedy."""

    def __init__(self, loc: Loc, msg: str) -> None:
        super().__init__(msg)
        self.loc = loc
        self.msg = msg


class AddressError(ValueError):
    """A job that names no address that its target may call. The text is for people."""


class BodyForm(StrEnum):
    """The body of a request.

    * `argument`: the argument alone.
    * `envelope`: the argument with the facts of the job.
    * `fireworq`: the text at `argument.payload`. As in Fireworq, the body of the answer decides, whatever its HTTP
      status.
    """

    ARGUMENT = "argument"
    ENVELOPE = "envelope"
    FIREWORQ = "fireworq"


@dataclass(frozen=True, slots=True)
class SigningSecret:
    """The secrets that sign requests: the present secret and, until an instant, the previous secret. Empty: none."""

    present: str = field(default="", repr=False)
    previous: str = field(default="", repr=False)
    previous_until_ms: int = 0

    def replaced(self, secret: str, now_ms: int) -> "SigningSecret":
        """Return the secrets after `secret` has taken the place of the present one. Empty: requests are no longer
        signed."""
        if secret == self.present:
            return self
        if not (secret and self.present):
            return SigningSecret(secret)
        return SigningSecret(secret, self.present, now_ms + ROTATION_MS)

    def at(self, now_ms: int) -> list[str]:
        """Return the secrets that sign a request now, the newest first."""
        if not self.present:
            return []
        return (
            [self.present, self.previous]
            if self.previous and now_ms < self.previous_until_ms
            else [self.present]
        )


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """An HTTP endpoint that does the jobs of some names.

    * `names`: job names and patterns such as `mail.*`.
    * `url`: its address, with the placeholders `{name}` and `{job_id}`. Empty: each job has its own, at `url_from`.
    * `ok`: the statuses that mean success.
    * `final`: the statuses that a repeat would not change. `ok` and `final` have statuses such as 404, and classes such
      as `2xx`.
    * `timeout_s`: the timeout of a request. None: the timeout of the job applies.

    Secrets, values of headers, and values in the query of `url` may be credentials. No view and no log shows them.
    """

    name: str
    names: tuple[str, ...]
    url: str = ""
    url_from: str = ""
    method: str = "POST"
    body: BodyForm = BodyForm.ARGUMENT
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret: SigningSecret = SigningSecret()
    max_running: int = DEFAULT_RUNNING
    max_running_per_host: int | None = None
    ok: tuple[Status, ...] = DEFAULT_OK
    final: tuple[Status, ...] = DEFAULT_FINAL
    timeout_s: float | None = None
    not_ready_for_s: float = DEFAULT_NOT_READY_S
    allow_hosts: tuple[str, ...] = ()
    description: str = ""

    @property
    def has_body(self) -> bool:
        return self.method in _WITH_BODY

    @property
    def has_patterns(self) -> bool:
        return any(map(is_pattern, self.names))

    def is_ok(self, status: int) -> bool:
        """Return whether an answer with this status means that the job is done."""
        return _is_among(status, self.ok)

    def is_final(self, status: int) -> bool:
        """Return whether a repeat of the request would get this status again. A class never includes 429 and 503,
        which ask for time."""
        return status in self.final if status in ASKS_FOR_TIME else _is_among(status, self.final)

    def shown(self) -> dict[str, Any]:
        """Return the target as views and the audit log show it."""
        return {
            "name": self.name,
            "names": list(self.names),
            "url": {"from": self.url_from} if self.url_from else shown_address(self.url),
            "method": self.method,
            "body": str(self.body),
            "headers": dict.fromkeys(self.headers, HIDDEN),
            "has_secret": bool(self.secret.present),
            "max_running": self.max_running,
            "max_running_per_host": self.max_running_per_host,
            "ok": list(self.ok),
            "final": list(self.final),
            "timeout": self.timeout_s,
            "not_ready_for_s": self.not_ready_for_s,
            "allow_hosts": list(self.allow_hosts),
            "description": self.description,
        }


# With these statuses, an endpoint asks for more time: it has not done the job, and does not say that it cannot.
ASKS_FOR_TIME: Final = frozenset({429, 503})


def is_pattern(name: str) -> bool:
    """Return whether a name of a target is a pattern, which stands for several names."""
    return not _WILD.isdisjoint(name)


def check_target(target: HttpTarget) -> None:
    """Raise TargetError if a part of the target is not valid, or if parts do not fit together."""
    for n, name in enumerate(target.names):
        _check_name(("names", n), name)
    if len(set(target.names)) != len(target.names):
        raise TargetError(("names",), "must not list a name twice")
    _check_address(target)
    for key, value in target.headers.items():
        _check_header(("headers", key), key, value)
    if len({key.lower() for key in target.headers}) != len(target.headers):
        raise TargetError(
            ("headers",), "must not list a header twice; capital and small letters are the same"
        )
    for at, statuses in (("ok", target.ok), ("final", target.final)):
        for n, status in enumerate(statuses):
            _check_status((at, n), status)
    if both := [str(status) for status in target.ok if status in target.final]:
        raise TargetError(("final",), f"must not contain {', '.join(both)}, which ok contains, too")
    if target.max_running_per_host is not None and target.max_running_per_host > target.max_running:
        raise TargetError(("max_running_per_host",), "must be at most max_running")
    if target.timeout_s is not None and not math.isfinite(target.timeout_s):
        raise TargetError(("timeout",), "must be a number of seconds")


def _check_name(loc: Loc, name: str) -> None:
    if not _PATTERN.fullmatch(name):
        raise TargetError(
            loc, "must have 1 to 200 of the characters A-Z a-z 0-9 _ . : / - and, in a pattern, * ? [ ] !"
        )
    if name.startswith(RESERVED_PREFIX):
        raise TargetError(loc, f"begins with {RESERVED_PREFIX}: jobs of such names belong to the masters")
    if not _SETS.fullmatch(name):
        raise TargetError(loc, "has a [, ] or ! outside of a set of characters such as [abc] or [!a-c]")
    try:
        compile_glob(name)
    except ValueError as exc:
        raise TargetError(loc, str(exc)) from None


def _check_address(target: HttpTarget) -> None:
    for n, host in enumerate(target.allow_hosts):
        if not _HOST.fullmatch(host):
            raise TargetError(
                ("allow_hosts", n),
                "must be a host such as app.example, *.app.example for all hosts below it, or * for all",
            )
    if target.url_from:
        try:
            path = parse_path(target.url_from)
        except MatcherError as error:
            raise TargetError(("url", "from"), error.msg) from None
        if path.root != "argument":
            raise TargetError(("url", "from"), "must begin with argument, such as argument.url")
        if not target.allow_hosts:
            raise TargetError(("allow_hosts",), "must name at least one host if jobs choose their addresses")
        return
    for found in _PLACEHOLDER.findall(target.url):
        if found not in _PLACEHOLDERS:
            raise TargetError(
                ("url",), f"has {found[:50]}; the only placeholders are {{name}} and {{job_id}}"
            )
    plain = _filled(target.url, "name", "id")
    if fault := url_fault(plain):
        raise TargetError(("url",), fault)
    if "{" in urlsplit(target.url).netloc:
        raise TargetError(("url",), "must not have a placeholder in the host")
    if target.allow_hosts and not is_host_allowed(urlsplit(plain).hostname or "", target.allow_hosts):
        raise TargetError(("allow_hosts",), "must include the host of url")


def _check_header(loc: Loc, key: str, value: str) -> None:
    if not _TOKEN.fullmatch(key):
        raise TargetError(loc, "is not the name of an HTTP header")
    if key.lower() in _OWN_FIELDS or key.lower().startswith(_OWN_PREFIXES):
        raise TargetError(loc, "is a header that the master writes itself; choose another name")
    if len(value) > MAX_HEADER_CHARS or not _FIELD_VALUE.fullmatch(value):
        raise TargetError(loc, f"must have at most {MAX_HEADER_CHARS} printable ASCII characters")


def _check_status(loc: Loc, status: Status) -> None:
    if isinstance(status, str):
        if not _CLASS.fullmatch(status):
            raise TargetError(loc, "must be a status such as 404, or one of 2xx, 3xx, 4xx and 5xx")
    elif not 200 <= status <= 599:
        raise TargetError(loc, "must be a status from 200 to 599")


def shown_address(url: str) -> str:
    """Return a URL as views show it: its query without values, except values that are placeholders."""
    base, mark, query = url.partition("?")
    return base + mark + "&".join(map(_shown_parameter, query.split("&"))) if query else url


def _shown_parameter(parameter: str) -> str:
    name, mark, value = parameter.partition("=")
    if not mark:
        return HIDDEN if _PLACEHOLDER.sub("", name) else name
    return name + mark + (HIDDEN if _PLACEHOLDER.sub("", value) else value)


def kept_url(url: str, old: "HttpTarget | None") -> str:
    """Return the URL to store. A URL that a client sends back in its shown form stays unchanged. Raise TargetError."""
    if old is not None and old.url and url == shown_address(old.url):
        return old.url
    if HIDDEN in url:
        raise TargetError(
            ("url",), f"has {HIDDEN} in place of values that are not known for this URL; send the whole URL"
        )
    return url


def kept_headers(headers: Mapping[str, str], old: "HttpTarget | None", new: "HttpTarget") -> dict[str, str]:
    """Return the headers to store for `new`. A value that a client sends back in its shown form stays unchanged. If the
    address changes, such a value is refused: a client that changes the address must know the credentials. Raise
    TargetError."""
    by_name = {key.lower(): value for key, value in old.headers.items()} if old else {}
    kept = {}
    for key, value in headers.items():
        if value == HIDDEN:
            if old is None or key.lower() not in by_name:
                raise TargetError(
                    ("headers", key), f"has {HIDDEN} in place of a value that is not known; send the value"
                )
            if not _goes_to_same(old, new):
                raise TargetError(
                    ("headers", key),
                    f"has {HIDDEN}, but hidden values are not kept for a changed address; send the value, or leave the "
                    "header out",
                )
            value = by_name[key.lower()]
        kept[key] = value
    return kept


def _goes_to_same(old: "HttpTarget", new: "HttpTarget") -> bool:
    """Return whether the requests of `new` can only reach addresses that the requests of `old` could reach."""
    if new.url:
        return new.url == old.url
    return new.url_from == old.url_from and set(new.allow_hosts) <= set(old.allow_hosts)


def is_host_allowed(host: str, allowed: Iterable[str]) -> bool:
    """Return whether a host is among the allowed hosts of a target."""
    host = host.lower().strip("[]").removesuffix(".")
    for one in allowed:
        one = one.lower().strip("[]").removesuffix(".")
        if one in (_ANY_HOST, host) or (
            one.startswith("*.") and host.endswith(one[1:]) and len(host) > len(one) - 1
        ):
            return True
    return False


def address_of(target: HttpTarget, name: str, job_id: str, argument: object) -> str:
    """Return the URL for a job; `argument`: its decoded argument. Raise AddressError."""
    if not target.url_from:
        return _filled(target.url, quote(name, safe=""), job_id)
    url = _value_at(argument, parse_path(target.url_from).parts)
    if not isinstance(url, str):
        raise AddressError(f"{target.url_from} has no URL")
    if fault := url_fault(url):
        raise AddressError(f"{target.url_from} {fault}")
    host = urlsplit(url).hostname or ""
    if not is_host_allowed(host, target.allow_hosts):
        raise AddressError(f"the host {host[:100]} is not in allow_hosts of target {target.name}")
    return url


def _value_at(value: object, parts: Iterable[str | int]) -> object:
    """Return the value at a path, or None if there is none."""
    for part in parts:
        match value, part:
            case dict(), str():
                value = value.get(part)
            case list(), int() if part < len(value):
                value = value[part]
            case _:
                return None
    return value


def _filled(url: str, name: str, job_id: str) -> str:
    return url.replace("{name}", name).replace("{job_id}", job_id)


def _is_among(status: int, statuses: Sequence[Status]) -> bool:
    return status in statuses or f"{status // 100}xx" in statuses
