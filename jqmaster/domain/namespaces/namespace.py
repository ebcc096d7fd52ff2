"""A namespace: which store has its data, whether it is served, and how much it may use."""

import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

from jqmaster.domain.matching.checks import Loc
from jqmaster.domain.namespaces.quotas import NO_QUOTAS, Quotas, quota_fault, quotas_set

NamespaceState = Literal["open", "closed", "moving", "faulted"]
STATES: Final[tuple[NamespaceState, ...]] = get_args(NamespaceState)

# The namespace whose URL paths have no prefix. Each installation has it, and it cannot be removed.
DEFAULT: Final = "default"
# The name of the store at `redis_url`.
DEFAULT_STORE: Final = "default"
# URL paths of a namespace begin with this, followed by its name.
PATHS: Final = "/ns/"
# If other namespaces are not served, callers who must not see their names see this fault instead.
OTHER_NAMESPACES: Final = "other_namespaces"
NAME_PATTERN: Final = r"^[a-z][a-z0-9-]{1,38}$"
STORE_PATTERN: Final = r"^[a-z][a-z0-9_-]{0,38}$"
# The tag of a namespace. It may be any value of the setting `shard`, so that an installation can become a namespace of
# another.
TAG_PATTERN: Final = r"^[a-z0-9_-]{1,64}$"
# These words cannot be names, because they mean something else in commands and in the paths of pages.
RESERVED_NAMES: Final = frozenset({"all", "api", "control", "new", "none", "ns", "stores"})
MAX_TITLE: Final = 100

_NAME: Final = re.compile(NAME_PATTERN.replace("$", r"\Z"))
_STORE: Final = re.compile(STORE_PATTERN.replace("$", r"\Z"))
_TAG: Final = re.compile(TAG_PATTERN.replace("$", r"\Z"))


class NamespaceError(ValueError):
    """A namespace that is refused. `loc`: the path to the faulty part; `msg`: the rule and the remedy."""

    def __init__(self, loc: Loc, msg: str) -> None:
        super().__init__(msg)
        self.loc = loc
        self.msg = msg


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace, as the registry knows it. Its keys have the hash tag `tag` in the configured store `store`. A tag is
    used once in all stores together, because archived logs are kept by tag.

    * `version`: grows with each change. No value is used twice, even if a namespace is deleted and created again. 0: it
      was never changed.
    * `stop_ms`: how long the announced move is expected to stop the namespace. Until the stop, new leases last at least
      this long. 0: no move is announced.
    """

    name: str
    tag: str
    store: str = DEFAULT_STORE
    state: NamespaceState = "open"
    title: str = ""
    quotas: Quotas = NO_QUOTAS
    version: int = 0
    stop_ms: int = 0

    @property
    def etag(self) -> str:
        return str(self.version)

    @property
    def is_moving(self) -> bool:
        """Return whether a move is announced or under way."""
        return self.state == "moving" or self.stop_ms > 0

    @property
    def is_default(self) -> bool:
        return self.name == DEFAULT


def default_namespace(shard: str) -> Namespace:
    """Return the default namespace as it is before anybody changes it."""
    return Namespace(DEFAULT, shard)


def check_namespace(namespace: Namespace) -> None:
    """Raise NamespaceError if a part of the namespace is not valid."""
    check_name(namespace.name)
    if not _TAG.match(namespace.tag):
        raise NamespaceError(("tag",), "must have 1 to 64 of the characters a-z 0-9 _ -")
    if not _STORE.match(namespace.store):
        raise NamespaceError(
            ("store",), "must have 1 to 39 of the characters a-z 0-9 _ -, and begin with a letter"
        )
    if len(namespace.title) > MAX_TITLE or not namespace.title.isprintable():
        raise NamespaceError(("title",), f"must have at most {MAX_TITLE} printable characters")
    for quota, value in quotas_set(namespace.quotas).items():
        if fault := quota_fault(quota, value):
            raise NamespaceError(("quotas", quota), fault)


def check_name(name: str) -> None:
    """Raise NamespaceError if a namespace must not have this name."""
    if not _NAME.match(name):
        wish = ", such as " + name.lower() if _NAME.match(name.lower()) else ""
        raise NamespaceError(
            ("name",), f"must have 2 to 39 of the characters a-z 0-9 -, and begin with a letter{wish}"
        )
    if name in RESERVED_NAMES:
        raise NamespaceError(("name",), f"must not be one of {', '.join(sorted(RESERVED_NAMES))}")
