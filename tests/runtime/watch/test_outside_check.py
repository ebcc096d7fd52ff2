"""An archive of job logs or a collector of traces that cannot be used is named from the start, with the reason."""

import shutil
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from jqmaster.config import Settings
from jqmaster.errors import ArchiveUnavailableError, JqmasterError
from jqmaster.net.trace_collector import TraceCollector
from jqmaster.runtime.watch import outside_check
from jqmaster.store.logs.archive import ArchiveAddress, LogArchive
from tests.support.cli import jqmaster
from tests.support.master import master_on
from tests.support.ports import free_port
from tests.support.server import StoreServer
from tests.support.waiting import wait_until


async def test_a_master_names_an_archive_that_it_cannot_use_and_is_ready(
    store_server: StoreServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outside_check, "RETRY_S", 0.2)
    (tmp_path / "file").write_text("in the way")
    url = f"file://{tmp_path}/file/logs"
    async with master_on(store_server.url, log_archive_url=url) as (master, api):
        (check,) = master.shard.services.outside_checks
        await wait_until(lambda: check.fault, what="the fault is known")
        status, ready = await api.call("GET", "/readyz")
        assert status == 200
        assert any("archive of logs" in fault for fault in ready["duty_faults"])
        (tmp_path / "file").unlink()

        async def others_know() -> bool:
            (seen,) = (await master.shard.services.stores.masters.look()).seen
            return not check.fault and not seen.record.duty_faults

        # Much sooner than the next heartbeat that is sent in full without a reason.
        await wait_until(others_know, timeout_s=3, what="other masters know that it works again")
    shutil.rmtree(tmp_path / "file")
    (tmp_path / "file").write_text("in the way")
    assert "the archive of job logs cannot be used" in caplog.text
    done = jqmaster("doctor", JQMASTER_REDIS_URL=store_server.url, JQMASTER_LOG_ARCHIVE_URL=url)
    assert "cannot write to the archive of logs" in done.out


async def test_an_archive_that_works_keeps_nothing_of_the_probe(tmp_path: Path) -> None:
    archive = LogArchive(ArchiveAddress(f"file://{tmp_path}"), "jq")
    await archive.probe()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


async def test_the_reason_names_what_refused_behind_a_long_address() -> None:
    settings = Settings(
        log_archive_url="s3://bucket/" + "prefix/" * 60,
        log_archive_endpoint="http://127.0.0.1:1",
        log_archive_region="eu",
        log_archive_key_id="id",
        log_archive_secret="secret",
    )
    address = ArchiveAddress.of(settings)
    assert address is not None
    archive = LogArchive(address, "jq")
    with pytest.raises(ArchiveUnavailableError) as told:
        await archive.probe()
    assert told.value.detail.startswith(f"cannot write to the archive of logs {archive.place}: ")
    assert "Connection refused" in told.value.detail
    assert len(told.value.detail) < 500 + len(archive.place)


async def test_a_master_names_a_collector_that_takes_no_spans_and_is_ready(
    store_server: StoreServer, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    async with master_on(store_server.url, traces_endpoint=endpoint) as (master, api):
        (check,) = master.shard.services.outside_checks
        await wait_until(lambda: check.fault, what="the fault is known")
        status, ready = await api.call("GET", "/readyz")
        assert status == 200
        assert any("connection refused; does a collector run there" in one for one in ready["duty_faults"])
        metrics = (await api.http.get("/metrics")).text
        assert 'jqmaster_duty_faults{duty="traces"} 1.0' in metrics
    assert "the collector of traces cannot be used" in caplog.text
    done = jqmaster("doctor", JQMASTER_REDIS_URL=store_server.url, JQMASTER_TRACES_ENDPOINT=endpoint)
    assert f"the collector at {endpoint}/v1/traces takes no spans" in done.out


class Answering:
    """A collector that answers every call with one status, and keeps what it was sent."""

    def __init__(self, status: int) -> None:
        self.calls: list[tuple[str, str | None]] = []
        outer = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.calls.append((self.path, self.headers["x-key"]))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> "Answering":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


async def test_a_collector_is_asked_as_the_spans_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b,other=1")
    with Answering(200) as collector:
        await TraceCollector(f"{collector.url}/").probe()
    assert collector.calls == [("/v1/traces", "a b")]


@pytest.mark.parametrize(
    ("status", "advice"), [(401, "OTEL_EXPORTER_OTLP_HEADERS"), (404, "without /v1/traces")]
)
async def test_a_refusal_of_a_collector_names_the_remedy(status: int, advice: str) -> None:
    with Answering(status) as collector, pytest.raises(JqmasterError, match=f"answers {status}; .*{advice}"):
        await TraceCollector(collector.url).probe()


async def test_a_collector_that_hangs_counts_as_a_fault() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        endpoint = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        with pytest.raises(JqmasterError, match="timed out"):
            await TraceCollector(endpoint, timeout_s=0.2).probe()
