"""Every error that a caller may meet, one class per thing that it may treat differently.

`code` is stable and reaches the client unchanged. The HTTP status of each class is decided in one table,
`jqmaster/api/http/problems.py`, and nowhere else.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldError:
    """One broken rule: `loc` is the path of the field (`("jobs", 3, "priority")`), `msg` names the rule."""

    loc: tuple[str | int, ...]
    msg: str


class JqmasterError(Exception):
    """Base of all. `detail` is for people; it never holds a secret and echoes input only in short."""

    code = "internal"

    def __init__(
        self,
        detail: str = "",
        *,
        code: str | None = None,
        errors: Sequence[FieldError] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after_s = retry_after_s
        if code is not None:
            self.code = code


class UnparsableError(JqmasterError):
    """The request cannot be parsed."""

    code = "unparsable"


class InvalidError(JqmasterError):
    """The request was understood and refused; `errors` names each field and rule."""

    code = "invalid"


def invalid(errors: Sequence[FieldError]) -> InvalidError:
    """Return the refusal of a request for its fields; `detail` says the first, for those who look no further."""
    first = errors[0]
    path = ".".join(str(part)[:64] for part in first.loc)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return InvalidError(f"{path}: {first.msg}{more}" if path else f"{first.msg}{more}", errors=errors)


class NotFoundError(JqmasterError):
    """Unknown, or not visible to the caller."""

    code = "not_found"


class OtherStoreError(JqmasterError):
    """The caller belongs to another store than this master."""

    code = "other_store"


class ConflictError(JqmasterError):
    """The present state does not admit the request."""

    code = "conflict"


class PreconditionFailedError(JqmasterError):
    """It is not, or no longer, as the caller said that it must be."""

    code = "precondition_failed"


class TooLargeError(JqmasterError):
    """A body, an argument or a structure is over its limit."""

    code = "too_large"


class UnsupportedMediaTypeError(JqmasterError):
    """The body is of a type that the master does not read."""

    code = "unsupported_media_type"


class UnauthorizedError(JqmasterError):
    """No credential, or one that is not valid."""

    code = "unauthorized"


class ForbiddenError(JqmasterError):
    """A valid credential without the scope that the route asks for."""

    code = "forbidden"


class AddressRefusedError(InvalidError):
    """A URL that the master must not or cannot call (egress guard, address proof)."""

    code = "address_refused"


class OverloadedError(JqmasterError):
    """A limit of the master is reached; try again after `retry_after_s`."""

    code = "overloaded"


class RateLimitedError(JqmasterError):
    """A limit of the caller is reached; try again after `retry_after_s`."""

    code = "rate_limited"


class StoreUnavailableError(JqmasterError):
    """The store did not do it: unreachable, loading, read-only or full. Nothing happened."""

    code = "store_unavailable"


class OutcomeUnknownError(JqmasterError):
    """The store may have done it. Safe to repeat with the same ID."""

    code = "outcome_unknown"


def unknown_worker(worker_id: str) -> NotFoundError:
    """The worker is not, or no longer, registered."""
    return NotFoundError(f"no worker {worker_id[:64]} is registered", code="unknown_worker")


@contextlib.contextmanager
def after_it_was_done() -> Iterator[None]:
    """Around what is read for the answer when something was done: a store that is away by then refused nothing."""
    try:
        yield
    except StoreUnavailableError as exc:
        raise OutcomeUnknownError(
            f"it was done, and then: {exc.detail}", retry_after_s=exc.retry_after_s
        ) from None


class StoreUnfitError(JqmasterError):
    """The store cannot give what was configured (durability, eviction policy, version); the master does not start."""

    code = "store_unfit"


class DataDirInUseError(JqmasterError):
    """Another process holds the data directory of the embedded store."""

    code = "data_dir_in_use"


class DamagedError(JqmasterError):
    """A record in the store is not what the master wrote; `jqmaster fsck` tells more."""

    code = "damaged"
