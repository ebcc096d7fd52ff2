"""A connection to the store that fails is told with its remedy."""

import pytest
from redis import exceptions as redis_errors

from jqmaster.store.link.store_faults import explained


@pytest.mark.parametrize(
    ("error", "is_tls", "words"),
    [
        (redis_errors.AuthenticationError("WRONGPASS"), False, "set user and password in redis_url"),
        (redis_errors.InvalidResponse("Protocol error: H"), False, "is it the address of a Redis or Valkey?"),
        (redis_errors.ConnectionError("TLSV13_ALERT_CERTIFICATE_REQUIRED"), True, "set redis_certfile"),
        (redis_errors.TimeoutError("Timeout reading"), True, "begins with redis://"),
        (redis_errors.TimeoutError("Timeout reading"), False, ""),
        (
            redis_errors.ConnectionError("Connection closed by server"),
            True,
            "does it require a client certificate",
        ),
        (redis_errors.ConnectionError("Connection closed by server"), False, "begins with rediss://"),
        (redis_errors.ConnectionError("anything else"), False, ""),
    ],
)
def test_a_fault_is_told_with_its_remedy(error: Exception, *, is_tls: bool, words: str) -> None:
    told = explained(error, is_tls=is_tls)
    assert told.startswith(str(error))
    assert words in told
    if not words:
        assert told == str(error)
