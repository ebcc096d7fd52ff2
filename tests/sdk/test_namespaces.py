"""The namespace of a process is a part of the addresses that it calls."""

from collections.abc import Iterator

import pytest

from tests.support.each import for_each
from worker_sdk import Worker, configure
from worker_sdk.environment import masters_or_default
from worker_sdk.transport.namespaces import in_namespace

pytestmark = pytest.mark.req("D29")
HERE = "http://127.0.0.1:8080"


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("JQMASTER_URL", raising=False)
    monkeypatch.delenv("JQMASTER_NAMESPACE", raising=False)
    yield
    configure()


@for_each(
    ("address", "namespace", "result"),
    [
        ("http://a", "shop", "http://a/ns/shop"),
        ("http://a/", "shop", "http://a/ns/shop"),
        ("https://a:8443/jobs", "shop", "https://a:8443/jobs/ns/shop"),
        # The address names one itself.
        ("http://a/ns/mail", "shop", "http://a/ns/mail"),
        ("http://a", "default", "http://a"),
        # A host may be called so.
        ("http://ns/", "shop", "http://ns/ns/shop"),
        ("http://ns/jobs", "shop", "http://ns/jobs/ns/shop"),
    ],
)
def test_an_address_gets_the_namespace(address: str, namespace: str, result: str) -> None:
    assert in_namespace(address, namespace) == result


def test_a_faulty_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Shop", "x", "shop/api", "x" * 40):
        with pytest.raises(ValueError, match="2 to 39 of the characters a-z 0-9 -"):
            in_namespace("http://a", name)
    monkeypatch.setenv("JQMASTER_NAMESPACE", "Shop")
    with pytest.raises(ValueError, match="namespace 'Shop'"):
        Worker()


def test_without_a_namespace_addresses_stay_as_they_are() -> None:
    assert masters_or_default(None) == HERE
    assert masters_or_default(["http://a/", "http://b"]) == ["http://a/", "http://b"]


def test_it_comes_from_configure_or_else_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JQMASTER_URL", "http://a http://b/")
    monkeypatch.setenv("JQMASTER_NAMESPACE", "mail")
    assert masters_or_default(None) == ("http://a/ns/mail", "http://b/ns/mail")
    configure(namespace="shop")
    assert masters_or_default(None) == ("http://a/ns/shop", "http://b/ns/shop")
    configure(url="http://c", namespace="shop")
    assert masters_or_default(None) == "http://c/ns/shop"
    # Addresses in the code get it, too, as they get the token.
    assert Worker("http://d").master == "http://d/ns/shop"
    configure(namespace="default")
    assert masters_or_default(None) == ("http://a", "http://b/")
