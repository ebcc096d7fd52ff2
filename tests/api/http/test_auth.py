"""Authentication of callers."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from jqmaster.api.http.auth import (
    AccessPolicy,
    Principal,
    Scope,
    generate_first_token,
    is_loopback,
    needs_first_token,
)
from jqmaster.config import Settings
from jqmaster.errors import ForbiddenError, UnauthorizedError, UnparsableError

TOKENS = {
    "push": "push:p-token",
    "work": "work:w-token",
    "read": "read:r-token",
    "operate": "operate:o-token",
    "admin": f"admin:sha256={hashlib.sha256(b'a-token').hexdigest()}",
    "both": "push+work:b-token",
}
GRANTED = {
    "push": {"push"},
    "work": {"work"},
    "read": {"read"},
    "operate": {"operate", "read"},
    "admin": {"push", "work", "read", "operate", "admin"},
    "both": {"push", "work"},
}


@pytest.fixture
def policy() -> AccessPolicy:
    return AccessPolicy(TOKENS.values(), host="0.0.0.0")


def call(policy: AccessPolicy, token: bytes | None = None, *, scope: Scope = Scope.READ, method: str = "GET",
         client: str | None = "192.0.2.7", **fields: str) -> Principal:  # fmt: skip
    sent = {name.replace("_", "-").encode(): value.encode() for name, value in fields.items()}
    sent.setdefault(b"host", b"localhost:8080")
    if token is not None:
        sent[b"authorization"] = token
    return policy.authorize(method, sent, client, scope)


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("name", TOKENS)
def test_a_token_allows_its_scopes_and_no_other(policy: AccessPolicy, name: str, scope: Scope) -> None:
    token = b"Bearer " + name[:1].encode() + b"-token"
    if scope in GRANTED[name]:
        assert call(policy, token, scope=scope).scopes == GRANTED[name]
    else:
        with pytest.raises(ForbiddenError):
            call(policy, token, scope=scope)


@pytest.mark.parametrize(
    "header",
    [
        None, b"", b"Bearer", b"Bearer ", b"Bearer wrong", b"bearer r-tokenx", b"Basic r-token", b"r-token",
        b"Bearer r-token, Bearer r-token", b"Bearer " + TOKENS["admin"].split(":")[1].encode(),
        b"Bearer " + TOKENS["admin"].split("=")[1].encode(), b"Bearer \xff\x00", b"Bearer read:r-token",
    ],
)  # fmt: skip
@pytest.mark.parametrize("client", ["127.0.0.1", "192.0.2.7", None])
def test_a_caller_without_a_valid_token_is_not_known(
    policy: AccessPolicy, header: bytes | None, client: str
) -> None:
    with pytest.raises(UnauthorizedError) as error:
        call(policy, header, client=client)
    assert "token" not in error.value.detail.replace("the token", "").replace("bearer token", "")


def test_no_token_is_kept_in_clear(policy: AccessPolicy) -> None:
    assert "-token" not in repr(vars(policy))
    assert call(policy, b"bearer r-token").name == hashlib.sha256(b"r-token").hexdigest()[:8]


@pytest.mark.parametrize(
    "text",
    [
        "token",
        "root:token",
        "push+:token",
        ":token",
        "push:",
        "push:a b",
        "push:sha256=12",
        "push:\n",
        "push:" + "a" * 513,
    ],
)
def test_a_faulty_entry_is_named_by_number_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="token 2") as error:
        AccessPolicy(["push:good", text])
    secret = text.partition(":")[2]
    assert not secret or secret == "token" or secret not in str(error.value)


# --- without tokens


@pytest.mark.parametrize("client", ["127.0.0.1", "::1", "127.8.8.8", None])
@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST.", "127.0.0.1"]
)
def test_without_tokens_this_machine_may_do_all(client: str | None, host: str) -> None:
    principal = call(AccessPolicy(), client=client, host=host, scope=Scope.ADMIN, method="POST")
    assert principal == Principal("local", frozenset(Scope))


@pytest.mark.parametrize("client", ["192.0.2.7", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1", ""])
def test_without_tokens_others_may_do_nothing(client: str) -> None:
    with pytest.raises(ForbiddenError) as error:
        call(AccessPolicy(), client=client)
    assert error.value.code == "local_only"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "localhost.evil",
        "",
        "localhost, evil",
        "0",
        "[::2]",
        "127.1",
    ],
)
def test_a_rebound_name_is_not_served(host: str) -> None:
    with pytest.raises(UnparsableError) as error:
        call(AccessPolicy(), client="127.0.0.1", host=host)
    assert error.value.code == "bad_host"


def test_listed_hosts_are_served_and_with_a_list_only_they() -> None:
    listed = AccessPolicy(["read:r-token"], host="jq.internal", allowed_hosts=["JQ.example"])
    for host in ("jq.example", "jq.internal:8080", "localhost"):
        assert call(listed, b"Bearer r-token", host=host)
    with pytest.raises(UnparsableError):
        call(listed, b"Bearer r-token", host="other.example")
    assert call(AccessPolicy(["read:r-token"]), b"Bearer r-token", host="any.example")


# --- other sites


@pytest.mark.parametrize(
    "fields",
    [
        {"sec_fetch_site": "cross-site"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://localhost:9090"},
        {"origin": "http://localhost"},
        {"origin": "http://localhost:8080.evil"},
        {"origin": "file://localhost:8080"},
        {"origin": "http://[::1"},
    ],
)
def test_other_sites_change_nothing(fields: dict[str, Any]) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        with pytest.raises(ForbiddenError) as error:
            call(AccessPolicy(), client="127.0.0.1", method=method, **fields)
        assert error.value.code == "cross_site"
    assert call(AccessPolicy(), client="127.0.0.1", method="GET", **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"sec_fetch_site": "same-origin", "origin": "http://localhost:8080"},
        {"sec_fetch_site": "none"},
        {"origin": "http://jq.example", "host": "jq.example"},
        {"origin": "https://jq.example", "host": "jq.example:443"},
        {"origin": "http://[::1]:8080", "host": "[::1]:8080"},
    ],
)
def test_our_own_pages_and_programs_may(fields: dict[str, Any]) -> None:
    policy = AccessPolicy(allowed_hosts=["jq.example"])
    assert call(policy, client="127.0.0.1", method="POST", **fields)


def test_behind_https_a_page_of_the_plain_text_site_changes_nothing() -> None:
    policy = AccessPolicy(["admin:t"], public_url="https://jq.example/ops")
    for host in ("jq.example", "jq.example:80"):
        with pytest.raises(ForbiddenError) as error:
            call(policy, b"Bearer t", method="POST", origin="http://jq.example", host=host)
        assert error.value.code == "cross_site"
    assert call(policy, b"Bearer t", method="POST", origin="https://jq.example", host="jq.example")
    # People who reach the master without the proxy, by another name, use the UI that it serves there.
    local = "127.0.0.1:8080"
    assert call(policy, b"Bearer t", method="POST", origin=f"http://{local}", host=local)


# --- settings and the first token


def test_tokens_come_from_settings_and_file(tmp_path: Path) -> None:
    listing = tmp_path / "tokens"
    digest = hashlib.sha256(b"from-file").hexdigest()
    listing.write_text(f"# ours\n\n  work:w#1  \nread+push:sha256={digest}\n")
    policy = AccessPolicy.from_settings(Settings(tokens=["push:one"], tokens_file=listing))
    for token, scope in ((b"one", Scope.PUSH), (b"w#1", Scope.WORK), (b"from-file", Scope.READ)):
        assert call(policy, b"Bearer " + token, scope=scope)


def test_loopback_needs_no_token(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    assert generate_first_token(settings) is None
    policy = AccessPolicy.from_settings(settings)
    assert call(policy, client="127.0.0.1", scope=Scope.ADMIN).name == "local"
    assert list(tmp_path.iterdir()) == []


def test_the_first_token_is_made_once_and_kept_as_a_digest(tmp_path: Path) -> None:
    settings = Settings(host="0.0.0.0", data_dir=tmp_path / "data")
    with pytest.raises(ValueError, match="requires tokens"):
        AccessPolicy.from_settings(settings)
    assert needs_first_token(settings)
    token = generate_first_token(settings)
    assert token is not None
    assert token.startswith("jqm_admin_")
    assert len(token.rpartition("_")[2]) * 4 >= 160
    [file] = (tmp_path / "data").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert token not in file.read_text()
    assert generate_first_token(settings) is None
    assert call(AccessPolicy.from_settings(settings), f"Bearer {token}".encode(), scope=Scope.ADMIN)


def test_an_empty_token_file_does_not_open_the_master(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("# none\n")
    with pytest.raises(ValueError, match="requires tokens"):
        AccessPolicy.from_settings(
            Settings(host="192.0.2.1", tokens_file=tmp_path / "tokens", data_dir=tmp_path)
        )


def test_two_installations_share_no_secret(tmp_path: Path) -> None:
    made = {generate_first_token(Settings(host="0.0.0.0", data_dir=tmp_path / name)) for name in "ab"}
    assert len(made) == 2


def test_loopback_addresses_are_recognized() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.255.0.1", "::1")))
    assert not any(map(is_loopback, ("", "0.0.0.0", "::", "10.0.0.1", "localhost.evil", "127.1", "evil")))
