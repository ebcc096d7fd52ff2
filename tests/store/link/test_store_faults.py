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
        (
            redis_errors.ConnectionError("Connection closed by server"),
            False,
            "begins with rediss://. If not, it may take no more connections (maxclients)",
        ),
        (redis_errors.ConnectionError("anything else"), False, ""),
    ],
)
def test_a_fault_is_told_with_its_remedy(error: Exception, *, is_tls: bool, words: str) -> None:
    told = explained(error, is_tls=is_tls)
    assert told.startswith(str(error))
    assert words in told
    if not words:
        assert told == str(error)


@pytest.mark.parametrize("is_tls", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        redis_errors.ConnectionError("Connection closed by server"),
        redis_errors.TimeoutError("Timeout reading"),
        ConnectionResetError(104, "Connection reset by peer"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_store_that_has_answered_is_not_suspected_of_another_scheme(
    error: Exception, *, is_tls: bool
) -> None:
    told = explained(error, is_tls=is_tls, has_answered=True)
    assert not [word for word in ("TLS", "redis", "certificate") if word in told]
    assert ("maxclients" in told) is not isinstance(error, redis_errors.TimeoutError)
