"""TLS to the store: real servers where one on this machine supports it, and which certificates are trusted."""

import contextlib
import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest
import redis

from jqmaster.errors import StoreUnavailableError
from jqmaster.store.keys import Keys
from jqmaster.store.link.access import StoreAccess
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from tests.support import server as servers
from tests.support.drill import backed_up_and_restored
from tests.support.master import master_on
from tests.support.ports import free_port
from tests.support.server import server_binary, started
from tests.support.store import StoreWorld
from tests.support.topology import SERVICE, SLOTS, SentinelServer, StoreNode
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.req("D20")]


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create an authority, its certificates (`store`, `master`), and another authority that nobody knows."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificates")
    directory = tmp_path_factory.mktemp("pki")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    for name in ("ca", "other"):
        openssl(
            directory,
            "req",
            "-x509",
            *key,
            "-subj",
            f"/CN={name}",
            # Python 3.13 requires that an authority states its purpose.
            "-addext",
            "keyUsage=critical,keyCertSign,cRLSign",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.pem",
        )
    for name in ("store", "master"):
        openssl(
            directory, "req", "-x509", *key, "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
            "-addext", "basicConstraints=critical,CA:FALSE", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-keyout", f"{name}.key", "-out", f"{name}.pem",
        )  # fmt: skip
    return directory


def openssl(directory: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)


@pytest.fixture(scope="module")
def tls_binary() -> Iterator[None]:
    """Return the tests' server if it was built with TLS, otherwise the system's."""
    candidates = [server_binary(), *filter(None, map(shutil.which, ("valkey-server", "redis-server")))]
    for binary in candidates:
        said = subprocess.run(
            [binary, "--port", "0", "--tls-port", "1", "--tls-cert-file", "/nonexistent"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        if "Failed to configure TLS" in said.stdout:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(servers, "server_binary", partial(str, binary))
                yield
            return
    pytest.skip("no server here was built with TLS")


def tls_settings(pki: Path) -> dict[str, str]:
    return {
        "port": "0",
        "tls-cert-file": str(pki / "store.pem"),
        "tls-key-file": str(pki / "store.key"),
        "tls-ca-cert-file": str(pki / "ca.pem"),
        "tls-replication": "yes",
    }


class TlsNode(StoreNode):
    """Accepts only TLS on its port, and only clients with a certificate."""

    def __init__(self, pki: Path, *extra: str) -> None:
        settings = [word for name, value in tls_settings(pki).items() for word in (f"--{name}", value)]
        super().__init__(*settings, *extra)

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), "--tls-port", str(self.port)]


class TlsSentinel(SentinelServer):
    def __init__(self, pki: Path, primary: StoreNode) -> None:
        super().__init__(primary, down_after_ms=5000, quorum=1)
        settings = "".join(f"{name} {value}\n" for name, value in tls_settings(pki).items())
        self.config.write_text(
            self.config.read_text().replace(f"port {self.port}\n", f"tls-port {self.port}\n{settings}", 1)
        )

    def _answers(self) -> bool:
        # The server says nothing to a client without a certificate; a client connects until it listens.
        self._connect().close()
        return True


@pytest.fixture(scope="module")
def node(pki: Path, tls_binary: None) -> Iterator[StoreNode]:
    one = TlsNode(pki)
    with started(one):
        yield one


@contextlib.asynccontextmanager
async def client_of(url: str, access: StoreAccess) -> AsyncIterator[StoreClient]:
    client = StoreClient(url, connections=4, access=access)
    try:
        yield client
    finally:
        await client.close()


def known(pki: Path, *, ca: str = "ca", name: str | None = "master") -> StoreAccess:
    return StoreAccess(
        ca_file=str(pki / f"{ca}.pem"),
        cert_file=name and str(pki / f"{name}.pem"),
        key_file=name and str(pki / f"{name}.key"),
    )


async def test_a_master_speaks_tls_to_its_store(node: StoreNode, pki: Path) -> None:
    async with master_on(
        f"rediss://{node.endpoint}",
        redis_cafile=pki / "ca.pem",
        redis_certfile=pki / "master.pem",
        redis_keyfile=pki / "master.key",
    ) as (_, api):
        assert await api.state(await api.enqueue("work")) == "ready"


@pytest.mark.parametrize(
    "fault", ["the authority is another", "no certificate is shown", "the name is another", "no tls"]
)
async def test_without_trust_nothing_is_said(node: StoreNode, pki: Path, fault: str) -> None:
    url, access = f"rediss://{node.endpoint}", known(pki)
    match fault:
        case "the authority is another":
            access = known(pki, ca="other")
        case "no certificate is shown":
            access = known(pki, name=None)
        case "the name is another":
            url = f"rediss://localhost:{node.port}"
        case "no tls":
            url = f"redis://{node.endpoint}"
    async with client_of(url, access) as client:
        with pytest.raises(StoreUnavailableError):
            await client.command("PING")


async def test_sentinels_and_their_primary_are_spoken_to_by_tls(node: StoreNode, pki: Path) -> None:
    sentinel = TlsSentinel(pki, node)
    with started(sentinel):
        async with client_of(f"rediss+sentinel://127.0.0.1:{sentinel.port}/{SERVICE}", known(pki)) as client:

            async def found() -> bool:
                with contextlib.suppress(StoreUnavailableError):
                    return bool(await client.command("PING"))
                return False

            await wait_until(found)


async def test_a_cluster_is_spoken_to_by_tls(pki: Path, tls_binary: None) -> None:
    one = TlsNode(pki, "--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-port", str(free_port()))
    with started(one), redis.Redis(unix_socket_path=str(one.socket)) as local:
        local.execute_command("CLUSTER ADDSLOTSRANGE", 0, SLOTS - 1)
        async with client_of(f"rediss+cluster://{one.endpoint}", known(pki)) as client:

            async def serves() -> bool:
                with contextlib.suppress(StoreUnavailableError):
                    return bool(
                        await client.run(
                            "mark_generation",
                            ("{jq}:generation", "{jq}:rules", "{jq}:frozen", "{jq}:leader"),
                            ("fresh",),
                        )
                    )
                return False

            await wait_until(serves)


@pytest.mark.req("D31")
async def test_a_backup_is_taken_and_restored_by_tls(node: StoreNode, pki: Path, tmp_path: Path) -> None:
    url = f"rediss://{node.endpoint}"
    async with (
        client_of(url, known(pki)) as client,
        StoreWorld.on(Shard.bound(client, Keys(f"t{uuid.uuid4().hex[:10]}"))) as world,
    ):
        await world.enqueue_many(30)
        await backed_up_and_restored(
            world,
            tmp_path,
            JQMASTER_REDIS_URL=url,
            JQMASTER_REDIS_CAFILE=str(pki / "ca.pem"),
            JQMASTER_REDIS_CERTFILE=str(pki / "master.pem"),
            JQMASTER_REDIS_KEYFILE=str(pki / "master.key"),
        )
