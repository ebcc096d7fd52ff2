"""A connection to the store that fails is told with its remedy."""

import pytest
from redis import exceptions as redis_errors

from jqmaster.errors import ConflictError, StoreUnavailableError
from jqmaster.store.link.access import naming_the_store
from jqmaster.store.link.refusals import classified, told
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


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (redis_errors.AuthenticationError("Authentication required."), "redis://user:password@host:port"),
        (redis_errors.AuthenticationError("invalid username-password pair"), "user or password is wrong"),
        (redis_errors.AuthenticationError("AUTH <password> called without any password"), "leave user and password"),
        (redis_errors.ResponseError("NOAUTH Authentication required."), "redis://user:password@host:port"),
        (redis_errors.NoPermissionError("this user has no permissions"), "NOPERM this user has no permissions; permit"),
        (redis_errors.MovedError("5798 127.0.0.1:7002"), "MOVED 5798 127.0.0.1:7002; it is a node of a Cluster"),
        (redis_errors.AskError("5798 127.0.0.1:7002"), "begin with redis+cluster://"),
        (redis_errors.BusyLoadingError("Redis is loading"), "LOADING Redis is loading; try again when"),
        (redis_errors.ReadOnlyError("You can't write"), "READONLY You can't write; it is a replica: name the primary"),
        (redis_errors.MasterDownError("Link with MASTER is down"), "it is a replica"),
        (redis_errors.ClusterDownError("Hash slot not served"), "CLUSTER INFO"),
        (redis_errors.ResponseError("NOREPLICAS Not enough good replicas"), "min-replicas-to-write"),
        (redis_errors.ResponseError("MISCONF Errors writing"), "see its log"),
        (redis_errors.ResponseError("BUSY a script"), "another program"),
        (redis_errors.MaxConnectionsError("max number of clients reached"), "maxclients"),
    ],
    ids=str,
)  # fmt: skip
def test_a_refusal_is_told_with_its_remedy(error: Exception, words: str) -> None:
    assert words in told(error)
    if isinstance(error, redis_errors.ResponseError):
        assert words in str(classified(error))


def test_a_refusal_of_which_nothing_is_known_is_told_as_it_is() -> None:
    assert told(redis_errors.ResponseError("ERR unheard of")) == "ERR unheard of"


def test_an_error_of_the_store_names_its_address_once() -> None:
    url = "rediss://user:secret@10.0.0.1:6379/3"
    for detail in ("the store refuses", "rediss://10.0.0.1:6379: the store refuses"):
        with pytest.raises(StoreUnavailableError) as raised, naming_the_store(url):
            raise StoreUnavailableError(detail)
        assert raised.value.detail == "rediss://10.0.0.1:6379: the store refuses"
    with pytest.raises(ConflictError) as other, naming_the_store(url):
        raise ConflictError("another thing")
    assert other.value.detail == "another thing"
