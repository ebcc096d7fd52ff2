import functools
import gc
import logging
import os
import signal
import uuid
from collections.abc import AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, cast

import pytest
from hypothesis import HealthCheck, settings

from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from tests.support.admin import forget_keys
from tests.support.order import spread
from tests.support.server import StoreServer, is_cluster_wanted, started
from tests.support.store import StoreWorld

if TYPE_CHECKING:
    from jqmaster.app import Master
    from tests.support.master import Api


pytest_plugins = [
    "tests.support.compiled",
    "tests.support.hung",
    "tests.support.run_limit",
    "tests.support.long",
    "tests.support.req_report",
    "tests.support.reruns",
]

# That of `jqmaster serve`. To start a master creates a few hundred thousand objects.
GC_THRESHOLD: Final = 10_000

# A deadline for each example, and the check of how fast examples come, measure how busy the machine is, not the code.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


def pytest_configure() -> None:
    # A shell lets what it runs in the background ignore these signals, and so would all processes that tests start.
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGQUIT, signal.SIG_DFL),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Spread the tests that wait over the run's processes, and keep those together that share a browser."""
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        items[:] = spread(items, worker["workercount"])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt objects that live as long as the run from garbage collection: millions of objects of tests and modules."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD)
        gc.enable()


@pytest.fixture(autouse=True)
def unchanged_environment() -> Iterator[None]:
    """Fail a test that leaves the environment changed: whatever this process starts later, such as a browser, would
    depend on which tests ran before it."""
    before = _environment()
    yield
    after = _environment()
    os.environ.update(before)
    for name in after.keys() - before.keys():
        del os.environ[name]
    changed = sorted(name for name in before | after if before.get(name) != after.get(name))
    assert changed == [], f"left changed in os.environ: {', '.join(changed)}"


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Masters in this process hash passwords with minimal work. Hashing threads yield to everything else, so among busy
    processes a login with the real cost takes seconds."""
    from argon2 import PasswordHasher

    with pytest.MonkeyPatch.context() as patched:
        quick = functools.partial(PasswordHasher, time_cost=1, memory_cost=8, parallelism=1)
        patched.setattr("jqmaster.service.identity.passwords.PasswordHasher", quick)
        yield


@pytest.fixture(scope="session", autouse=True)
def certificates_read_once() -> Iterator[None]:
    """Clients of httpx share one context for TLS. Each would read all certificates of authorities, which takes longer
    than most tests."""
    from httpx import create_ssl_context as create

    shared = create(trust_env=False)

    def context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> Any:
        own = (
            verify is not True
            or cert
            or (trust_env and os.environ.keys() & {"SSL_CERT_FILE", "SSL_CERT_DIR"})
        )
        return create(verify=verify, cert=cert, trust_env=trust_env) if own else shared

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("httpx._transports.default.create_ssl_context", context)
        yield


@pytest.fixture
def kept_root_logger() -> Iterator[None]:
    """Undo what a test, or a framework that it uses, does to the root logger."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(scope="session")
def store_server() -> Iterator[StoreServer]:
    """Start one real server for the session, or a Cluster. Each test uses its own shard on it."""
    if is_cluster_wanted():
        from tests.support.topology import Cluster

        cluster = Cluster()
        with started(cluster):
            # Tests use it like a server: by its URL.
            yield cast(StoreServer, cluster)
    else:
        server = StoreServer()
        with started(server):
            yield server


@pytest.fixture(scope="session")
def lone_server(store_server: StoreServer) -> Iterator[StoreServer]:
    """Start one real server even if the others share a Cluster, for tests of what lies before its socket."""
    if isinstance(store_server, StoreServer):
        yield store_server
    else:
        server = StoreServer()
        with started(server):
            yield server


@pytest.fixture
async def world(store_server: StoreServer) -> AsyncIterator[StoreWorld]:
    """Yield a separate shard on the real server, with a clock moved by the test. End with fsck and a check for leaked
    keys."""
    client = StoreClient(store_server.url, connections=8)
    client.listens_sharded = client.publishes_sharded = client.is_on_cluster
    shard = Shard.bound(client, Keys(f"t{uuid.uuid4().hex[:10]}"))
    try:
        async with StoreWorld.on(shard) as one:
            yield one
    finally:
        await forget_keys(shard)
        await client.close()


@pytest.fixture
async def master(store_server: StoreServer) -> "AsyncIterator[Master]":
    """Yield a leading master on its own shard, reached over real HTTP. End with fsck."""
    from tests.support.master import master_on

    async with master_on(store_server.url) as (one, _):
        yield one


@pytest.fixture
async def api(master: "Master") -> "AsyncIterator[Api]":
    """Yield a client of `master`. Each answer is checked against openapi/jqmaster.yaml."""
    from tests.support.master import Api

    client = Api(master.server.url)
    yield client
    await client.http.aclose()
