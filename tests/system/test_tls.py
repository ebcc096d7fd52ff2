"""TLS between masters, workers and pushers, and certificates that are renewed during operation."""

import asyncio
import ssl
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from cryptography import x509

from jqmaster.app import running_master
from jqmaster.config import Settings
from tests.support import real_time
from tests.support.master import QUICK
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk import Pusher, Worker

pytestmark = real_time.PROCESSES

TOKEN = "push+work+read:the-token"


@dataclass(frozen=True)
class Files:
    certfile: Path
    keyfile: Path


class Authority:
    def __init__(self, directory: Path) -> None:
        self.ca = trustme.CA()
        self.directory = directory
        self.cafile = directory / "ca.pem"
        self.ca.cert_pem.write_to_path(str(self.cafile))

    def issue(self, name: str, *identities: str) -> Files:
        """Write the certificate in place as renewers do, with the key first."""
        issued = self.ca.issue_cert(*(identities or ("127.0.0.1",)))
        files = Files(self.directory / f"{name}.pem", self.directory / f"{name}.key")
        issued.private_key_pem.write_to_path(str(files.keyfile))
        files.certfile.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        return files


def serial_of(pem: Path) -> int:
    return x509.load_pem_x509_certificate(pem.read_bytes()).serial_number


async def connect(port: int, context: ssl.SSLContext) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="127.0.0.1")


async def serial_served(port: int, context: ssl.SSLContext) -> int:
    _, writer = await connect(port, context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(shown).serial_number


async def is_alive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    writer.write(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await writer.drain()
    return b"HTTP/1.1 " in await reader.readuntil(b"\r\n\r\n")


@pytest.mark.req("D18")
@pytest.mark.rule("E1.6")
async def test_certificates_of_both_sides_are_asked_for_and_renewed(
    store_server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    of_master, of_worker = authority.issue("master"), authority.issue("worker")
    settings = Settings(
        **QUICK,
        redis_url=store_server.url,
        shard="tls",
        tokens=[TOKEN],
        tls_certfile=of_master.certfile,
        tls_keyfile=of_master.keyfile,
        tls_client_cafile=authority.cafile,
        calls_cafile=authority.cafile,
        calls_certfile=of_master.certfile,
        calls_keyfile=of_master.keyfile,
    )
    for name, value in (
        ("CLIENT_CAFILE", authority.cafile), ("CLIENT_CERTFILE", of_worker.certfile), ("CLIENT_KEYFILE",
        of_worker.keyfile),
        ("WORKER_CERTFILE", of_worker.certfile), ("WORKER_KEYFILE", of_worker.keyfile),
        ("WORKER_CLIENT_CAFILE", authority.cafile),
    ):  # fmt: skip
        monkeypatch.setenv(f"JQMASTER_{name}", str(value))
    known = ssl.create_default_context(cafile=authority.cafile)
    known.load_cert_chain(of_worker.certfile, of_worker.keyfile)
    async with running_master(settings) as master:
        assert master.server.url.startswith("https://")
        worker = Worker(master.server.url, token="the-token", grace_s=1)

        @worker.handler("double")
        async def double(argument: int) -> int:
            return 2 * argument

        async with worker.running(), Pusher(master.server.url, token="the-token") as pusher:
            assert worker.address
            assert worker.address.startswith("https://")
            ports = (master.server.port, int(worker.address.rpartition(":")[2]))

            async def works() -> None:
                job_id = await pusher.enqueue("double", 21, keep_result=True)
                result = await pusher.result(job_id, wait=20)
                assert result is not None
                assert result.result == 42

            await works()
            # Strangers and an old protocol are refused everywhere.
            stranger = ssl.create_default_context(cafile=authority.cafile)
            old = ssl.create_default_context(cafile=authority.cafile)
            old.load_cert_chain(of_worker.certfile, of_worker.keyfile)
            with warnings.catch_warnings(action="ignore"):
                old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
                old.maximum_version = ssl.TLSVersion.TLSv1_1
            for port in ports:
                assert not await comes_in(port, stranger)
                assert not await comes_in(port, old)
            kept = [await connect(port, known) for port in ports]
            for connection in kept:
                assert await is_alive(*connection)
            before = [await serial_served(port, known) for port in ports]
            assert before == [serial_of(of_master.certfile), serial_of(of_worker.certfile)]
            authority.issue("master")
            authority.issue("worker")
            after = [serial_of(of_master.certfile), serial_of(of_worker.certfile)]

            async def renewed() -> bool:
                return [await serial_served(port, known) for port in ports] == after

            await wait_until(renewed, what="both serve the new certificates")
            for connection in kept:
                assert await is_alive(*connection)
                connection[1].close()
            await works()
            # Half a renewal does not change anything.
            of_master.keyfile.write_bytes(of_worker.keyfile.read_bytes())
            await asyncio.sleep(0)
            assert await serial_served(ports[0], known) == after[0]


async def comes_in(port: int, context: ssl.SSLContext) -> bool:
    try:
        reader, writer = await connect(port, context)
    except (OSError, ssl.SSLError):
        return False
    try:
        return await is_alive(reader, writer)
    except (OSError, ssl.SSLError, asyncio.IncompleteReadError):
        return False
    finally:
        writer.transport.abort()


@pytest.mark.rule("E1.6")
@pytest.mark.parametrize("fault", ["other name", "unknown authority"])
async def test_a_worker_that_is_not_who_it_says_gets_nothing(
    store_server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    authority = Authority(tmp_path)
    of_worker = authority.issue("worker", "elsewhere.example" if fault == "other name" else "127.0.0.1")
    cafile = authority.cafile if fault == "other name" else None
    monkeypatch.setenv("JQMASTER_WORKER_CERTFILE", str(of_worker.certfile))
    monkeypatch.setenv("JQMASTER_WORKER_KEYFILE", str(of_worker.keyfile))
    settings = Settings(**QUICK, redis_url=store_server.url, shard=f"tls{len(fault)}", calls_cafile=cafile)
    async with running_master(settings) as master:
        worker = Worker(master.server.url, grace_s=1)
        worker.handler("work")(lambda argument: None)
        async with worker.running():
            await wait_until(lambda: master.shard.leader.leadership, what="the master leads")
            # The worker proves its address before registration, which requires TLS.
            assert worker.worker_id is None
