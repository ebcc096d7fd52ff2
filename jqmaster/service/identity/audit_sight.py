"""Decides which entries of the audit log a caller with rights in only some namespaces may see."""

from jqmaster.domain.identity.access import Principal, Scope
from jqmaster.store.identity.audit import DAMAGED, AuditEntry, Sight


def audit_sight(caller: Principal) -> Sight | None:
    """Return a function that tells whether this caller may see an entry. None: the caller may see all entries.

    The audit log of the namespace `default` also has the entries about the installation: about its users, logins,
    tokens and namespaces. A caller without rights in all namespaces sees these entries:

    * entries about its own acts and about `default`,
    * entries about other namespaces that it may operate,
    * entries about tokens that are valid only in namespaces that it may operate.
    """
    names = caller.namespaces_with(Scope.OPERATE)
    if names is None:
        return None

    def is_shown(entry: AuditEntry) -> bool:
        if entry.who == caller.name and entry.action != DAMAGED:
            return True
        kind = entry.action.partition(".")[0]
        if kind == "namespace":
            return entry.target in names
        if entry.log == "changes":
            return True
        return kind == "token" and all(
            _is_bound_within(one, names) for one in (entry.before, entry.after) if one is not None
        )

    return is_shown


def _is_bound_within(token: dict[str, object], names: frozenset[str]) -> bool:
    bound = token.get("namespaces")
    return isinstance(bound, list) and bool(bound) and names.issuperset(bound)
