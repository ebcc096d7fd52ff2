"""Parses and describes targets in the form that clients write and read."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from jqmaster.domain.instant import iso_or_none
from jqmaster.domain.matching.checks import Loc
from jqmaster.domain.targets.target import (
    RESERVED_NAMES,
    BodyForm,
    HttpTarget,
    SigningSecret,
    TargetError,
    check_target,
    kept_headers,
    kept_url,
)
from jqmaster.errors import FieldError, InvalidError, NotFoundError
from jqmaster.net.webhook_secret import secret_bytes


def draft_of(name: str, fields: Mapping[str, Any], old: HttpTarget | None, now_ms: int) -> HttpTarget:
    """Return the target that a checked request describes. `old`: the current target. Its secret and its hidden values
    are kept if the request has no new ones. Raise InvalidError, which names the rule."""
    if name in RESERVED_NAMES:
        raise refusal(("name",), "is a path of the API, so it cannot be a name")
    with refusing():
        url, secret = fields["url"], fields["secret"]
        has_own = isinstance(url, Mapping)
        kept = old.secret if old else SigningSecret()
        if secret:
            try:
                secret_bytes(secret)
            except ValueError as exc:
                raise TargetError(("secret",), str(exc)) from None
        target = HttpTarget(
            name=name,
            names=tuple(fields["names"]),
            url="" if has_own else kept_url(url, old),
            url_from=url["from_"] if has_own else "",
            method=fields["method"],
            body=BodyForm(fields["body"]),
            secret=kept if secret is None else kept.replaced(secret, now_ms),
            max_running=fields["max_running"],
            max_running_per_host=fields["max_running_per_host"],
            ok=tuple(fields["ok"]),
            final=tuple(fields["final"]),
            timeout_s=fields["timeout"],
            not_ready_for_s=fields["not_ready_for_s"],
            allow_hosts=tuple(fields["allow_hosts"]),
            description=fields["description"],
        )
        target = replace(target, headers=kept_headers(fields["headers"], old, target))
        check_target(target)
        return target


def describe(target: HttpTarget) -> dict[str, Any]:
    """Return a target in the form that clients read, without its credentials."""
    return target.shown() | {
        "previous_secret_until": iso_or_none(target.secret.previous_until_ms if target.secret.previous else 0)
    }


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Convert errors of the domain to InvalidError, with the location of the faulty part."""
    try:
        yield
    except TargetError as error:
        raise refusal(error.loc, error.msg) from None


def refusal(loc: Loc, msg: str) -> InvalidError:
    """Return the error that refuses a target because of the field at `loc`."""
    return InvalidError("the target is not valid", errors=[FieldError(loc, msg)])


def unknown_target(name: str) -> NotFoundError:
    """Return the error for a target that does not exist."""
    return NotFoundError(f"no target {name[:100]}", code="unknown_target")
