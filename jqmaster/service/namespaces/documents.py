"""Parses and describes namespaces in the form that clients write and read."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jqmaster.domain.matching.checks import Loc
from jqmaster.domain.namespaces.namespace import (
    DEFAULT_STORE,
    Namespace,
    NamespaceError,
    check_namespace,
)
from jqmaster.domain.namespaces.quotas import QUOTAS, Quotas
from jqmaster.errors import FieldError, InvalidError, NotFoundError


def draft_of(name: str, fields: Mapping[str, Any], present: Namespace | None) -> Namespace:
    """Return the namespace that a checked request describes. For an existing namespace, the request must omit its tag
    and its store or repeat the current ones. Raise InvalidError, which names the rule."""
    tag, store = fields["tag"], fields["store"]
    quotas = Quotas(**(fields["quotas"] or {}))
    if present is None:
        draft = Namespace(
            name,
            name if tag is None else tag,
            DEFAULT_STORE if store is None else store,
            title=fields["title"],
            quotas=quotas,
        )
    else:
        for part, given, kept in (("tag", tag, present.tag), ("store", store, present.store)):
            if given not in (None, kept):
                remedy = "" if part == "tag" else "request a move to another store, or "
                raise refusal((part,), f"is {kept}, and this request moves no data: {remedy}leave it out")
        draft = replace(present, title=fields["title"], quotas=quotas)
    try:
        check_namespace(draft)
    except NamespaceError as error:
        raise refusal(error.loc, error.msg) from None
    return draft


def describe(namespace: Namespace) -> dict[str, Any]:
    """Return the namespace in the form that clients read."""
    return {
        "name": namespace.name,
        "title": namespace.title,
        "store": namespace.store,
        "tag": namespace.tag,
        "state": namespace.state,
        "quotas": {quota: getattr(namespace.quotas, quota) for quota in QUOTAS},
    }


def refusal(loc: Loc, msg: str) -> InvalidError:
    """Return the error that refuses a namespace because of the field at `loc`."""
    return InvalidError("the namespace is not valid", errors=[FieldError(loc, msg)])


def no_namespace(name: str) -> NotFoundError:
    """Return the error for a namespace that does not exist."""
    return NotFoundError(f"no namespace {name[:64]}", code="unknown_namespace")
