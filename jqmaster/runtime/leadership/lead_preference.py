"""The order in which masters should lead each namespace."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from jqmaster.domain.namespaces.leads import owners, preference
from jqmaster.domain.namespaces.namespace import DEFAULT, Namespace
from jqmaster.runtime.leadership.live_masters import LiveMasters

# Maximum number of sets of live masters whose owners are cached. Shards may see different sets, but only for a moment.
_MAX_KEPT: Final = 16


class LeadPreference:
    """Determines which master should lead each namespace.

    Every master computes the same order from the same namespaces and masters. Only the leader's lock decides who leads,
    so masters that disagree for a moment lose time and nothing else. With one namespace there is no order; any master
    may win the election.

    * `namespaces`: returns the namespaces of the installation.
    * `living`: returns the live masters of the installation.
    """

    def __init__(self, namespaces: Callable[[], Mapping[str, Namespace]], living: LiveMasters) -> None:
        self._namespaces = namespaces
        self.living = living
        self._known: Mapping[str, Namespace] = {}
        self._open: Sequence[str] = ()
        self._owners: dict[frozenset[str], dict[str, str]] = {}

    @property
    def is_in_use(self) -> bool:
        """Return whether there is more than one open namespace."""
        current = self._namespaces()
        if current is not self._known:
            self._known, self._owners = current, {}
            self._open = [name for name, one in current.items() if one.state == "open"]
        return len(self._open) > 1

    def of(self, namespace: str, master_ids: Collection[str]) -> Sequence[str]:
        """Return these masters in the order in which they should lead the namespace. Empty: there is no order."""
        if not self.is_in_use or not master_ids:
            return ()
        ids = frozenset(master_ids)
        owner = self.owners_among(ids).get(namespace)
        return [*([owner] if owner else []), *preference(namespace, ids - {owner})]

    def owners_among(self, ids: frozenset[str]) -> Mapping[str, str]:
        """Return, for each open namespace, which of these masters should lead it."""
        if (chosen := self._owners.get(ids)) is None:
            if len(self._owners) >= _MAX_KEPT:
                self._owners.clear()
            chosen = self._owners[ids] = owners(self._open, ids)
        return chosen


class NamespacePreference:
    """The order of one namespace."""

    def __init__(self, order: LeadPreference, namespace: str = DEFAULT) -> None:
        self._order = order
        self._namespace = namespace

    @property
    def living(self) -> frozenset[str]:
        """Return the masters of the installation that are alive, as far as this process knows."""
        return self._order.living.ids

    def of(self, master_ids: Collection[str]) -> Sequence[str]:
        """See `LeadPreference.of`."""
        return self._order.of(self._namespace, master_ids)
