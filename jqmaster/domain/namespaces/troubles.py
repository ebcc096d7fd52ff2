"""The present problems of an installation, for notices to people."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Troubles:
    """The present problems of the stores, the namespaces and their moves. Each mapping has texts for people, by name.
    If the store of a namespace is down, only the text of the store names the namespace. The default namespace and its
    store have their own notices."""

    stores: Mapping[str, str]
    namespaces: Mapping[str, str]
    moves: Mapping[str, str]


NO_TROUBLES: Final = Troubles({}, {}, {})
