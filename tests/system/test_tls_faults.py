"""Faults of TLS: the log or the answer that reaches whoever can mend them names the cause."""

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from jqmaster.app import running_master
from jqmaster.config import Settings
from tests.support import real_time
from tests.support.cli import jqmaster
from tests.support.master import QUICK
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk import Pusher, SyncPusher, UnavailableError, Worker

pytestmark = [real_time.PROCESSES, pytest.mark.req("D18")]

TOKEN = "push+work+read+operate:the-token"


class Certificates:
    """Certificates of every kind that a server may show."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ca, self.other_ca = trustme.CA(), trustme.CA()
        self.cafile = self._write("ca", self.ca.cert_pem)
        past = datetime.now(UTC) - timedelta(days=1)
        self.good = self._issue("good", self.ca, "127.0.0.1")
        self.expired = self._issue(
            "expired", self.ca, "127.0.0.1", not_after=past, not_before=past - timedelta(days=9)
        )
        self.other_name = self._issue("name", self.ca, "elsewhere.example")
        self.unknown = self._issue("unknown", self.other_ca, "127.0.0.1")

    def _write(self, name: str, *blobs: trustme.Blob) -> Path:
        path = self.directory / f"{name}.pem"
        path.write_bytes(b"".join(blob.bytes() for blob in blobs))
        return path

    def _issue(self, name: str, ca: trustme.CA, *identities: str, **more: Any) -> tuple[Path, Path]:
        issued = ca.issue_cert(*identities, **more)
        return self._write(name, *issued.cert_chain_pems), self._write(f"{name}-key", issued.private_key_pem)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


REFUSED = "does not accept the certificate of this server"
# Fault: certificate of the master, whether it asks for one, whether callers speak TLS, what callers say, what the
# master says.
FAULTS: dict[str, tuple[str, bool, bool, tuple[str, ...], str]] = {
    "unknown authority": ("unknown", False, True, ("unable to get local issuer", "JQMASTER_CLIENT_CAFILE"), REFUSED),
    "expired": ("expired", False, True, ("certificate has expired", "renew"), REFUSED),
    "other name": ("other_name", False, True, ("mismatch", "name"), REFUSED),
    "no client certificate": (
        "good", True, True, ("client certificate", "JQMASTER_CLIENT_CERTFILE"), "presented no certificate"
    ),
    "plain to TLS": ("good", False, False, ("is it https?",), "plain HTTP"),
    "TLS to plain": ("", False, True, ("http://",), ""),
}  # fmt: skip


@contextlib.asynccontextmanager
async def master_with(
    store: StoreServer, certificates: Certificates, kind: str, asks: bool
) -> AsyncIterator[int]:
    certfile, keyfile = getattr(certificates, kind) if kind else (None, None)
    settings = Settings(
        **QUICK,
        redis_url=store.url,
        shard="tlsfaults",
        tokens=[TOKEN],
        tls_certfile=certfile,
        tls_keyfile=keyfile,
        tls_client_cafile=certificates.cafile if asks else None,
    )
    async with running_master(settings) as master:
        yield master.server.port


def texts(caplog: pytest.LogCaptureFixture, logger: str) -> str:
    return " | ".join(
        one.getMessage()
        for one in caplog.records
        if one.name.startswith(logger) and one.levelno >= logging.WARNING
    )


@pytest.mark.parametrize("fault", list(FAULTS))
async def test_a_fault_between_a_client_and_a_master_is_named_at_both_ends(
    store_server: StoreServer,
    certificates: Certificates,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    kind, asks, is_tls, words, of_master = FAULTS[fault]
    of_server: list[str] = []
    log = logging.getLogger("worker_sdk.transport.handshakes")
    monkeypatch.setattr(log, "warning", lambda text, *values: of_server.append(text % values))
    monkeypatch.setenv("JQMASTER_CLIENT_CAFILE", str(certificates.cafile))
    monkeypatch.setenv("JQMASTER_TOKEN", "the-token")
    async with master_with(store_server, certificates, kind, asks) as port:
        url = f"{'https' if is_tls else 'http'}://127.0.0.1:{port}"

        async with Pusher(url, max_wait_s=1) as pusher:
            with pytest.raises(UnavailableError) as told:
                await pusher.enqueue("x", 1)
        assert all(word in str(told.value) for word in words), told.value

        def push() -> str:
            with SyncPusher(url, max_wait_s=1) as sync, pytest.raises(UnavailableError) as told:
                sync.enqueue("x", 1)
            return str(told.value)

        text = await asyncio.to_thread(push)
        assert all(word in text for word in words), text

        for pull in (False, True):
            caplog.clear()
            worker = Worker(url, grace_s=0.1, pull=pull)
            worker.handler("x")(lambda argument: None)
            async with worker.running():
                await wait_until(
                    lambda: texts(caplog, "worker_sdk.worker"), what=f"the worker tells, {pull=}"
                )
            assert all(word in texts(caplog, "worker_sdk.worker") for word in words), texts(
                caplog, "worker_sdk"
            )

        environment: dict[str, Any] = {
            "JQMASTER_CLIENT_CAFILE": str(certificates.cafile),
            "JQMASTER_TOKEN": "the-token",
        }
        for command in (["stats", "--master", url], ["conformance", "master", url]):
            done = await asyncio.to_thread(functools.partial(jqmaster, *command, **environment))
            assert done.code == 5, done
            said = done.err.replace("\n", " ")
            assert all(word in said for word in words), said

    # Each cause is logged once, not for each call.
    assert len(of_server) == bool(of_master), of_server
    assert of_master in " ".join(of_server)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("unknown", ("unable to get local issuer", "calls_cafile")),
        ("expired", ("certificate has expired", "renew")),
        ("other_name", ("mismatch",)),
        ("asks", ("client certificate", "calls_certfile")),
    ],
)
async def test_a_fault_between_a_master_and_a_worker_is_named_by_the_master(
    store_server: StoreServer,
    certificates: Certificates,
    kind: str,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    certfile, keyfile = certificates.good if kind == "asks" else getattr(certificates, kind)
    monkeypatch.setenv("JQMASTER_WORKER_CERTFILE", str(certfile))
    monkeypatch.setenv("JQMASTER_WORKER_KEYFILE", str(keyfile))
    if kind == "asks":
        monkeypatch.setenv("JQMASTER_WORKER_CLIENT_CAFILE", str(certificates.cafile))
    settings = Settings(
        **QUICK, redis_url=store_server.url, shard="tlsfaults", calls_cafile=certificates.cafile
    )
    async with running_master(settings) as master:
        worker = Worker(master.server.url, grace_s=0.1)
        worker.handler("x")(lambda argument: None)
        async with worker.running():
            await wait_until(
                lambda: "was refused" in texts(caplog, "jqmaster.service"), what="the master tells"
            )
    text = texts(caplog, "jqmaster.service")
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"redis_cafile": "missing.pem"}, ("redis_cafile", "missing.pem", "no such file")),
        ({"redis_cafile": "empty.pem"}, ("redis_cafile", "empty.pem", "PEM")),
        ({"redis_certfile": "good", "redis_keyfile": "expired-key"}, ("redis_certfile", "the key does not belong")),
        ({"tls_certfile": "missing", "tls_keyfile": "good-key"}, ("tls_certfile", "missing.pem", "no such file")),
        ({"calls_cafile": "missing.pem"}, ("calls_cafile", "missing.pem", "no such file")),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_a_fault_of_the_settings(
    certificates: Certificates, tmp_path: Path, settings: dict[str, str], words: tuple[str, ...]
) -> None:
    (certificates.directory / "empty.pem").write_text("")
    environment: dict[str, Any] = {
        f"JQMASTER_{name.upper()}": str(certificates.directory / (file if "." in file else f"{file}.pem"))
        for name, file in settings.items()
    } | {"JQMASTER_REDIS_URL": "rediss://127.0.0.1:1", "JQMASTER_DATA_DIR": str(tmp_path)}
    for command in ("doctor", "serve"):
        done = jqmaster(command, **environment)
        assert done.code == 2, done
        assert all(word in done.err for word in words), done.err


async def _serve_bytes(reply: bytes | None, tls: Any = None) -> tuple[asyncio.Server, int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read(10)
            if reply is not None:
                writer.write(reply)
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    return server, server.sockets[0].getsockname()[1]


async def test_a_fault_between_a_master_and_its_store_is_named_with_the_remedy(
    certificates: Certificates, tmp_path: Path
) -> None:
    from worker_sdk.transport.tls import server_context

    rows: list[tuple[str, str, bool, tuple[str, ...]]] = [
        ("rediss", "unknown", False, ("unable to get local issuer", "redis_cafile")),
        ("rediss", "expired", False, ("certificate has expired", "renew")),
        ("rediss", "other_name", False, ("mismatch",)),
        ("rediss", "good", True, ("redis_certfile",)),
        ("redis", "good", False, ("rediss://",)),
        ("rediss", "", False, ("redis://",)),
        ("redis", "", False, ("address of a Redis",)),
    ]
    for scheme, kind, asks, words in rows:
        tls = None
        if kind:
            client_cafile = certificates.cafile if asks else None
            certfile, keyfile = getattr(certificates, kind)
            tls = server_context(certfile, keyfile, client_cafile).context
        server, port = await _serve_bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n", tls)
        environment: dict[str, Any] = {
            "JQMASTER_REDIS_URL": f"{scheme}://127.0.0.1:{port}",
            "JQMASTER_STORE_TIMEOUT_S": "1",
        }
        if scheme == "rediss":
            environment["JQMASTER_REDIS_CAFILE"] = str(certificates.cafile)
        for command in ("doctor", "fsck"):
            done = await asyncio.to_thread(functools.partial(jqmaster, command, **environment))
            assert done.code == 5, (kind, done)
            assert all(word in done.err for word in words), (scheme, kind, command, done.err)
        server.close()
    done = await asyncio.to_thread(jqmaster, "fsck", JQMASTER_REDIS_URL="redis://127.0.0.1:1")
    assert "does the store run there" in done.err
