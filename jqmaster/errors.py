"""Every error that a caller may get. Each case that a caller may treat differently has its own class.

`code` is stable and reaches the client unchanged. Only the table in `jqmaster/api/http/problems.py` decides the
HTTP status of each class."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class FieldError:
    """One invalid field.
    * `loc`: its path, such as `("jobs", 3, "priority")`.
    * `msg`: its fault.
    """

    loc: tuple[str | int, ...]
    msg: str


class JqmasterError(Exception):
    """Base of all errors. `detail` is for people. It never contains a secret, and repeats only short pieces of
    the input."""

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


class StaleEpochError(Exception):
    """Raised for a write under an old epoch. The store knows a newer epoch, and nothing was written. A leader
    that gets this error no longer leads.

    This class is not a JqmasterError, because no caller of this service gets it.
    """


class UnparsableError(JqmasterError):
    """The request cannot be parsed."""

    code = "unparsable"


class InvalidError(JqmasterError):
    """The request is not valid. `errors` names each invalid field and its fault."""

    code = "invalid"


def invalid(errors: Sequence[FieldError]) -> InvalidError:
    """Return the error for a request with invalid fields. `detail` repeats the first fault."""
    first = errors[0]
    path = ".".join(str(part)[:64] for part in first.loc)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return InvalidError(f"{path}: {first.msg}{more}" if path else f"{first.msg}{more}", errors=errors)


class NotFoundError(JqmasterError):
    """The object does not exist, or the caller may not see it."""

    code = "not_found"


class OtherStoreError(JqmasterError):
    """The caller belongs to another store than this master."""

    code = "other_store"


class ConflictError(JqmasterError):
    """The current state does not allow the request."""

    code = "conflict"


class ChallengeOverError(JqmasterError):
    """The attempt that waited for the callback is over."""

    code = "challenge_over"


class NotUniqueError(ConflictError):
    """Another job, `job_id`, holds the uniqueness key."""

    code = "not_unique"

    def __init__(self, detail: str, job_id: str, *, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(detail, errors=errors)
        self.job_id = job_id


class OfferUnderWayError(NotUniqueError):
    """Another job, `job_id`, holds the uniqueness key, and is being offered to a worker. The master will know
    within moments whether the job can be replaced."""

    code = "offer_under_way"


class PreconditionFailedError(JqmasterError):
    """The caller's precondition does not hold."""

    code = "precondition_failed"


class TooLargeError(JqmasterError):
    """A body, an argument or a structure exceeds its limit."""

    code = "too_large"


class UnsupportedMediaTypeError(JqmasterError):
    """The master does not read bodies of this type."""

    code = "unsupported_media_type"


class UnauthorizedError(JqmasterError):
    """The request has no valid credential."""

    code = "unauthorized"


class ForbiddenError(JqmasterError):
    """The credential is valid, but lacks the scope that the route requires."""

    code = "forbidden"


class AddressRefusedError(InvalidError):
    """A URL that the master must not or cannot call, according to the egress guard or the proof of address."""

    code = "address_refused"


class OverloadedError(JqmasterError):
    """A limit of the master is reached, or other callers change an object so often that the request cannot
    complete. The request had no effect. Try again after `retry_after_s` seconds."""

    code = "overloaded"


class RateLimitedError(JqmasterError):
    """A limit of the caller is reached. Try again after `retry_after_s` seconds."""

    code = "rate_limited"


class StoreUnavailableError(JqmasterError):
    """The store is unreachable, loading, read-only or full. The request had no effect."""

    code = "store_unavailable"


class StoreRefusedError(StoreUnavailableError):
    """The store answers, but refuses this command, for example a write while the store is full. It may accept
    other commands."""


class NamespaceUnavailableError(JqmasterError):
    """The namespace exists, but is not served at present. Other namespaces may be served. `reason`: the reason,
    for callers that may read."""

    code = "namespace_faulted"

    def __init__(
        self, detail: str, *, code: str | None = None, reason: str = "", retry_after_s: float = 1.0
    ) -> None:
        super().__init__(detail, code=code, retry_after_s=retry_after_s)
        self.reason = reason


class ProviderUnavailableError(JqmasterError):
    """The login provider does not answer, or its answer cannot be used."""

    code = "provider_unavailable"


class OutcomeUnknownError(JqmasterError):
    """The request may have taken effect. It is safe to repeat it with the same ID."""

    code = "outcome_unknown"


UNKNOWN_NAMESPACE: Final = "unknown_namespace"


def unknown_namespace(name: str) -> NotFoundError:
    """Return the error for a path with a namespace that does not exist or in which the caller has no right. `name`:
    untrusted text from the path."""
    return NotFoundError(
        f"there is no namespace {name[:64]!r}, or the caller has no right in it", code=UNKNOWN_NAMESPACE
    )


def unknown_worker(worker_id: str) -> NotFoundError:
    """Return the error for a worker that is not registered."""
    return NotFoundError(f"no worker {worker_id[:64]} is registered", code="unknown_worker")


@contextlib.contextmanager
def after_it_was_done(done: str = "the change was made") -> Iterator[None]:
    """Surround the steps that follow a completed change or a completed part of a change. If the store or a limit
    refuses such a step, the error says what was `done` before."""
    try:
        yield
    except (StoreUnavailableError, OverloadedError) as exc:
        raise OutcomeUnknownError(
            f"{done}, but then: {exc.detail}", retry_after_s=exc.retry_after_s
        ) from None


class StoreUnfitError(JqmasterError):
    """The store does not meet the requirements, such as durability, eviction policy or version. So the master
    does not start."""

    code = "store_unfit"


class DataDirInUseError(JqmasterError):
    """Another process holds the data directory of the embedded store."""

    code = "data_dir_in_use"


class DamagedError(JqmasterError):
    """A record in the store is damaged. `jqmaster fsck` shows details."""

    code = "damaged"


class ArchiveUnavailableError(JqmasterError):
    """The archive of job logs does not answer, or refuses a request. `stored_after`: the store still has the
    lines after this number. None: the store has no lines, or the call was not a read."""

    code = "archive_unavailable"

    def __init__(
        self, detail: str, *, retry_after_s: float | None = None, stored_after: int | None = None
    ) -> None:
        super().__init__(detail, retry_after_s=retry_after_s)
        self.stored_after = stored_after


class ArchiveDamagedError(JqmasterError):
    """An object of the archive is damaged."""

    code = "archive_damaged"
