"""The guard of outgoing calls, against all ways to name a forbidden address."""

import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from jqmaster.config import Settings
from jqmaster.errors import AddressRefusedError
from jqmaster.net.egress import MAX_URL_BYTES, EgressGuard, GuardedRoute
from worker_sdk.transport.http_client import HttpAnswer, HttpClient

DEFAULT_NETWORKS = Settings().allowed_worker_networks
ANYWHERE = ["0.0.0.0/0", "::/0"]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Resolve names from this table instead of the system's resolver; an IP address stays as it is."""
    table: dict[str, list[str]] = {}

    def look_up(host: str, port: int) -> list[Any]:
        if host not in table:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [
            (socket.AF_INET6 if ":" in text else socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, port))
            for text in table[host]
        ]

    monkeypatch.setattr("jqmaster.net.resolver.look_up", look_up)
    return table


async def resolve(guard: EgressGuard, url: str) -> str:
    return (await guard.resolve(guard.parse(url))).address


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("http://Worker.Example:9000/jq/", "http://worker.example:9000/jq"),
        ("HTTPS://worker.example./", "https://worker.example:443"),
        ("http://10.1.2.3", "http://10.1.2.3:80"),
        ("http://[0:0::1]:9000", "http://[::1]:9000"),
        ("http://worker-1_a.svc:9000/a%20b", "http://worker-1_a.svc:9000/a%20b"),
    ],
)
def test_a_url_is_normalised_once(url: str, normal: str) -> None:
    guard = EgressGuard(DEFAULT_NETWORKS)
    assert guard.parse(url).url == normal
    assert guard.parse(normal).url == normal


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "gopher://a/", "ftp://a/", "unix:/run/redis.sock", "javascript:alert(1)", "//a/", "a:80",
        "http:a", "http://", "http:///x", "http://:80/", "",
        "http://good@evil/", "http://a:b@evil/", "http://@evil/", "http://evil#@good/", "http://a/#", "http://a/x#y",
        "http://a/?", "http://a/?q=1", "http://a\\@evil/", "http://a/\\x", "http://a/\tx", "http://a\n/", "http://a b/",
        " http://a/", "http://a/\0", "http://a\x7f/", "http://\u00e4.example/", "http://a\u3002b/", "http://%61/",
        "http://127.0.0.1%2f@evil/", "http://a%00b/", "http://a..b/", "http://a../", "http://.a/", "http://-a/",
        "http://" + "a" * 64 + "/", "http://" + "a." * 127 + "b/",
        "http://2852039166/", "http://0xA9FEA9FE/", "http://0251.0376.0251.0376/", "http://169.254.43518/",
        "http://127.1/", "http://0/", "http://1.2.3.4.5/", "http://1.2.3.256/", "http://01.2.3.4/", "http://0x7f.1/",
        "http://1.2.3.0x4/", "http://[::1/", "http://::1/", "http://[1.2.3.4]/", "http://[fe80::1%25eth0]/",
        "http://[fe80::1%eth0]/", "http://[::1]x/",
        "http://a:0/", "http://a:22/", "http://a:25/", "http://a:6379/", "http://a:65536/", "http://a:-1/",
        "http://a:8o/", "http://a:+80/", "http://a/../b", "http://a/%2E%2e/b", "http://a/./b",
        "http://a/" + "x" * MAX_URL_BYTES,
    ],
)  # fmt: skip
def test_a_url_that_could_be_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(AddressRefusedError):
        EgressGuard(ANYWHERE).parse(url)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.5.5", "192.168.1.1", "[::1]", "[fd12::1]"]
)
async def test_loopback_and_private_networks_are_allowed_by_default(address: str) -> None:
    assert await resolve(EgressGuard(DEFAULT_NETWORKS), f"http://{address}:9000") == address.strip("[]")


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "100.64.0.1", "198.18.0.1", "192.0.2.1", "172.32.0.1", "[2001:db8::1]", "[2606:4700::1111]"],
)
async def test_other_networks_need_a_setting(address: str) -> None:
    with pytest.raises(AddressRefusedError):
        await resolve(EgressGuard(DEFAULT_NETWORKS), f"http://{address}:9000")
    assert await resolve(EgressGuard(ANYWHERE), f"http://{address}:9000") == address.strip("[]")


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254", "169.254.0.1", "0.0.0.0", "0.1.2.3", "224.0.0.1", "239.1.1.1", "255.255.255.255",
        "240.0.0.1",
        "192.0.0.1", "100.100.100.200", "[::]", "[fe80::1]", "[fec0::1]", "[ff02::1]", "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]", "[::ffff:0.0.0.0]", "[::169.254.169.254]", "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "[2001:0:a9fe:a9fe::1]",
        str(f"[2001:0:808:808::{0xA9FE ^ 0xFFFF:x}:{0xA9FE ^ 0xFFFF:x}]"),
    ],
)  # fmt: skip
async def test_some_addresses_are_never_called_whatever_is_allowed(address: str) -> None:
    with pytest.raises(AddressRefusedError):
        await resolve(EgressGuard(ANYWHERE), f"http://{address}:9000")


async def test_a_mapped_address_is_judged_as_the_one_it_stands_for() -> None:
    guard = EgressGuard(["10.0.0.0/8"], [("10.0.0.9", 9000)])
    # Python 3.13 writes the same address differently.
    pinned = await resolve(guard, "http://[::ffff:10.0.0.1]:9000")
    assert ipaddress.ip_address(pinned) == ipaddress.ip_address("::ffff:10.0.0.1")
    for refused in ("[::ffff:127.0.0.1]", "[::ffff:10.0.0.9]"):
        with pytest.raises(AddressRefusedError):
            await resolve(guard, f"http://{refused}:9000")


async def test_every_address_of_a_name_must_be_allowed(names: dict[str, list[str]]) -> None:
    guard = EgressGuard(DEFAULT_NETWORKS)
    names["good"] = ["10.0.0.1", "10.0.0.2"]
    names["mixed"] = [f"10.0.1.{n}" for n in range(20)] + ["8.8.8.8"]
    names["meta"] = ["169.254.169.254"]
    names["linked"] = ["fe80::1%2"]
    names["many"] = [f"10.0.0.{n}" for n in range(50)]
    names["none"] = []
    assert await resolve(guard, "http://good:9000") == "10.0.0.1"
    for name in ("mixed", "meta", "linked", "many", "none", "unknown"):
        with pytest.raises(AddressRefusedError):
            await resolve(guard, f"http://{name}:9000")


async def test_the_store_and_the_master_are_never_called_by_name_or_address(
    names: dict[str, list[str]],
) -> None:
    names.update(
        {"store": ["10.0.0.5"], "alias": ["10.0.0.5"], "localhost": ["127.0.0.1"], "other": ["10.0.0.6"]}
    )
    guard = EgressGuard(DEFAULT_NETWORKS, [("Store.", 7000), ("127.0.0.1", 8080)])
    for url in ("http://store:7000", "http://alias:7000", "http://10.0.0.5:7000", "http://localhost:8080",
                "http://[::ffff:127.0.0.1]:8080"):  # fmt: skip
        with pytest.raises(AddressRefusedError):
            await resolve(guard, url)
    assert await resolve(guard, "http://alias:7001") == "10.0.0.5"
    assert await resolve(guard, "http://other:7000") == "10.0.0.6"
    assert await resolve(guard, "http://localhost:8081") == "127.0.0.1"


async def test_a_master_on_all_addresses_is_none_of_them() -> None:
    guard = EgressGuard(ANYWHERE)
    guard.forbid("0.0.0.0", 8080)
    for own in ("127.0.0.1", "127.0.0.2"):
        with pytest.raises(AddressRefusedError):
            await resolve(guard, f"http://{own}:8080")
    assert await resolve(guard, "http://192.0.2.1:8080") == "192.0.2.1"


class Peer:
    """Stands in for a worker and records what reaches it."""

    def __init__(self) -> None:
        self.hosts: list[str] = []
        self.port = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.hosts.append(request.headers["Host"])
        if request.path == "/redirect":
            raise web.HTTPFound("http://169.254.169.254/")
        return web.Response(text="ok")


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    one = Peer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", one.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    one.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    yield one
    await runner.cleanup()


@pytest.fixture
async def get() -> AsyncIterator[Callable[[EgressGuard, str], Awaitable[HttpAnswer]]]:
    """Yield a call by the client that calls workers."""
    clients: list[HttpClient] = []

    async def call(guard: EgressGuard, address: str) -> HttpAnswer:
        clients.append(HttpClient(GuardedRoute(guard, ssl.create_default_context), max_answer_bytes=1000))
        host, _, path = address.removeprefix("http://").partition("/")
        return await clients[-1].call(
            "GET", f"http://{host}", f"/{path}", b"", "", timeout_s=5, connect_timeout_s=1
        )

    yield call
    for one in clients:
        await one.close()


async def test_the_connection_goes_to_the_pinned_address_and_keeps_the_name(
    peer: Peer, get: Any, names: dict[str, list[str]]
) -> None:
    names["worker.example"] = ["127.0.0.1"]
    answer = await get(EgressGuard(DEFAULT_NETWORKS), f"http://worker.example:{peer.port}/x")
    assert answer.body == b"ok"
    assert peer.hosts == [f"worker.example:{peer.port}"]


async def test_a_name_that_changes_its_mind_is_not_followed(
    peer: Peer, get: Any, names: dict[str, list[str]]
) -> None:
    guard = EgressGuard(["10.0.0.0/8"])
    names["rebinding"] = ["10.0.0.1"]
    url = f"http://rebinding:{peer.port}/"
    await guard.resolve(guard.parse(url))
    names["rebinding"] = ["127.0.0.1"]
    with pytest.raises(AddressRefusedError):
        await get(guard, url)
    assert peer.hosts == []


async def test_a_numeric_host_does_not_get_past_the_guard(peer: Peer, get: Any) -> None:
    with pytest.raises(AddressRefusedError):
        await get(EgressGuard(["10.0.0.0/8"]), f"http://127.0.0.1:{peer.port}/")
    forbidding = EgressGuard(DEFAULT_NETWORKS, [("127.0.0.1", peer.port)])
    with pytest.raises(AddressRefusedError):
        await get(forbidding, f"http://127.0.0.1:{peer.port}/")
    assert peer.hosts == []


async def test_a_redirect_is_an_answer_and_not_followed(peer: Peer, get: Any) -> None:
    answer = await get(EgressGuard(DEFAULT_NETWORKS), f"http://127.0.0.1:{peer.port}/redirect")
    assert answer.status == 302
    assert len(peer.hosts) == 1


async def test_proxies_of_the_environment_are_not_used(
    peer: Peer, get: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    answer = await get(EgressGuard(DEFAULT_NETWORKS), f"http://127.0.0.1:{peer.port}/")
    assert answer.status == 200


def test_a_network_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError):
        EgressGuard(["10.0.0.1/8"])


def test_the_test_data_hold_what_they_claim() -> None:
    teredo = ipaddress.IPv6Address(f"2001:0:808:808::{0xA9FE ^ 0xFFFF:x}:{0xA9FE ^ 0xFFFF:x}").teredo
    assert teredo is not None
    assert str(teredo[1]) == "169.254.169.254"
