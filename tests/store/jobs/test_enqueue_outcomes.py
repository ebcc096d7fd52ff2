"""Each refusal of a push tells one job and many, with a code by which programs tell it from the others."""

import pytest

from jqmaster.errors import (
    ConflictError,
    FieldError,
    InvalidError,
    JqmasterError,
    NotUniqueError,
    OfferUnderWayError,
    RateLimitedError,
)
from jqmaster.store.jobs.enqueue_outcomes import (
    BACKLOG_RETRY_AFTER_S,
    BacklogFull,
    BatchClosed,
    Conflict,
    IdTaken,
    NotUnique,
    PredecessorRefused,
    PushExpired,
    PushRefusal,
    TooFast,
)
from tests.support.constraints import constraint

FULL = BacklogFull("0" * 16)
LIMIT = constraint("mails", max_backlog=7)


@pytest.mark.parametrize(
    ("refusal", "rule", "kind", "code"),
    [
        (
            FULL,
            f"a constraint lets no more of these jobs wait (gate {'0' * 16})",
            RateLimitedError,
            "backlog_full",
        ),
        (
            FULL.of(LIMIT),
            "constraint mails lets no more than 7 of these jobs wait",
            RateLimitedError,
            "backlog_full",
        ),
        (
            TooFast(9),
            "the quota of the namespace allows 9 pushed jobs a second",
            RateLimitedError,
            "namespace_rate",
        ),
        (IdTaken("j1"), "j1 is already the ID of another job", ConflictError, "id_taken"),
        (BatchClosed("b1", True), "no batch has this ID", InvalidError, "unknown_batch"),
        (BatchClosed("b1", False), "the batch is complete or canceled", ConflictError, "batch_over"),
        (PredecessorRefused("j1", True), "no job has the ID j1", InvalidError, "unknown_predecessor"),
        (
            PredecessorRefused("j1", False),
            "job j1 is over and did not succeed",
            ConflictError,
            "predecessor_over",
        ),
        (NotUnique("j1", Conflict.REFUSED), "job j1 holds the uniqueness key", NotUniqueError, "not_unique"),
        (
            NotUnique("j1", Conflict.OFFERED),
            "job j1 is being offered to a worker, and may start with its former content; repeat the push",
            OfferUnderWayError,
            "offer_under_way",
        ),
        (
            PushExpired(1_800_000_000_000),
            "is past: the request came at 2027-01-15T08:00:00.000Z by the clock of the store; give a later time, or "
            "expires_s, which counts from the request",
            InvalidError,
            "already_expired",
        ),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, PushRefusal) else "",
)
def test_a_refusal_names_its_rule_and_has_a_code(
    refusal: PushRefusal, rule: str, kind: type[JqmasterError], code: str
) -> None:
    errors = [FieldError(("jobs", 3, *refusal.field_path), refusal.rule)]
    error = refusal.error(refusal.detail(), errors)
    assert (refusal.is_refusal, refusal.rule) == (True, rule)
    assert (type(error), error.code, list(error.errors)) == (kind, code, errors)
    assert refusal.may_pass == (code == "offer_under_way")


def test_the_detail_tells_one_from_many() -> None:
    taken, held = IdTaken("j1"), NotUnique("j1", Conflict.REFUSED)
    assert (taken.detail(), taken.detail(3)) == ("the ID j1 is taken", "3 of the IDs are taken")
    assert (held.detail(), held.detail(3)) == (held.rule, "3 of the uniqueness keys are held by other jobs")
    assert BatchClosed("b1", False).detail(3) == "batch b1: the batch is complete or canceled"
    assert PushExpired(0).detail().startswith("expires_at is past")
    assert FULL.detail(3) == FULL.rule


def test_the_quota_and_a_full_backlog_say_when_to_try_again() -> None:
    assert TooFast(9).error("", ()).retry_after_s == 1.0
    assert FULL.error("", ()).retry_after_s == BACKLOG_RETRY_AFTER_S


def test_a_push_that_accepts_the_holder_is_not_refused() -> None:
    assert not NotUnique("j1", Conflict.EXISTING).is_refusal
    assert not NotUnique("j1", Conflict.REPLACED).is_refusal
