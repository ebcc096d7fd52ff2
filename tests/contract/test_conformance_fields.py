"""The conformance kit knows each field that a worker may send, although it does not import the API."""

import pytest

from jqmaster.api.workers.schemas import (
    ClaimRef,
    ClaimRequest,
    HeartbeatRequest,
    RegisterRequest,
    ReportedClaim,
)
from jqmaster.conformance import known_fields

pytestmark = pytest.mark.req("M8")


def test_the_kit_knows_the_fields_of_each_call() -> None:
    assert set(RegisterRequest.model_fields) == known_fields.REGISTRATION
    assert set(ClaimRequest.model_fields) == known_fields.POLL
    assert set(HeartbeatRequest.model_fields) == known_fields.HEARTBEAT
    assert set(ReportedClaim.model_fields) == known_fields.REPORTED_CLAIM
    assert set(ClaimRef.model_fields) == known_fields.CLAIM
