import pytest

from jqmaster.runtime.leadership.own_address import own_url


@pytest.mark.parametrize(
    ("bound", "store", "expected"),
    [
        ("http://127.0.0.1:8080", "redis://10.0.0.9:6379", "http://127.0.0.1:8080"),
        ("https://10.0.0.7:8443", "redis://10.0.0.9:6379", "https://10.0.0.7:8443"),
        ("http://[::1]:8080", "unix:///run/valkey", "http://[::1]:8080"),
        ("http://0.0.0.0:8080", "unix:///run/valkey", "http://127.0.0.1:8080"),
        ("https://[::]:8443", "unix:///run/valkey", "https://127.0.0.1:8443"),
        ("http://0.0.0.0:8080", "redis://:secret@127.0.0.1:6380/0", "http://127.0.0.1:8080"),
        ("http://0.0.0.0:8080", "redis://localhost", "http://127.0.0.1:8080"),
        ("http://[::]:8080", "redis://[::1]:6379", "http://[::1]:8080"),
    ],
)
def test_others_find_it_at_its_address(bound: str, store: str, expected: str) -> None:
    if "[::1]" in store:
        import socket

        try:
            with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
                probe.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 here")
    found = own_url(bound, store)
    # `localhost` may mean either loopback address.
    assert found == expected or ("localhost" in store and found == "http://[::1]:8080")
