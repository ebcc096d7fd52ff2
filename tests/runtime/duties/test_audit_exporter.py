"""The audit log is exported as it grows: in order, at least once, from where the export stopped."""

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jqmaster.errors import StaleEpochError
from jqmaster.runtime.duties import audit_exporter as module
from jqmaster.runtime.duties.audit_exporter import AuditExporter
from jqmaster.runtime.outbound.line_sink import LineSink, SinkClosedError
from jqmaster.store.identity.audit import AuditStore, encode_entry
from jqmaster.store.identity.audit_export import AuditExportStore
from jqmaster.store.identity.logins import LoginStore
from jqmaster.store.leadership.leadership import Leadership
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.clock import ManualClock
from tests.support.master import master_on
from tests.support.server import StoreServer
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.rule("E6.4"), real_time.LOOPS]


class Exporting:
    """The exporter of one leadership, which looks again only when the test says so."""

    def __init__(self, world: StoreWorld, path: Path, epoch: str | None = None) -> None:
        self.clock = ManualClock()
        self.stale = 0
        self.store = AuditExportStore(world.shard)
        self.exporter = AuditExporter(
            Leadership(epoch or world.epoch, "m"), self.store, LineSink(str(path)), self.clock,
            on_stale=self._on_stale,
        )  # fmt: skip

    def _on_stale(self) -> None:
        self.stale += 1

    async def round(self) -> None:
        """Look once."""
        assert await self.exporter._round()

    async def stop(self) -> None:
        await self.exporter.stop()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def targets(path: Path) -> list[tuple[str, int, str]]:
    return [(line["log"], line["number"], line["target"]) for line in lines(path)]


def of_log(path: Path, log: str) -> list[tuple[int, str]]:
    return [(number, target) for one, number, target in targets(path) if one == log]


def assert_by_time(path: Path) -> None:
    """Within a millisecond, the order of the two logs is undefined."""
    instants = [int(line["id"].partition("-")[0]) for line in lines(path)]
    assert instants == sorted(instants)


def entry(target: str, **after: Any) -> bytes:
    return encode_entry(who="ada", action="act", target=target, before=None, after=after or None)


async def change(world: StoreWorld, target: str, **after: Any) -> None:
    await AuditStore(world.shard).write(entry(target, **after))


async def access(world: StoreWorld, target: str) -> None:
    await LoginStore(world.shard).log_refused(target, entry(target))


async def test_both_logs_go_out_in_order_with_numbers(world: StoreWorld, path: Path) -> None:
    exporting = Exporting(world, path)
    await exporting.round()
    assert not path.exists()
    await change(world, "c1", text="a\x1b[31m\u202e\nb", raw=b"\xff")
    await access(world, "a1")
    await change(world, "c2")
    await exporting.round()
    await exporting.round()
    await access(world, "a2")
    await exporting.round()
    assert of_log(path, "changes") == [(1, "c1"), (2, "c2")]
    assert of_log(path, "access") == [(1, "a1"), (2, "a2")]
    assert_by_time(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().isascii()
    assert lines(path)[0]["after"] == {"text": "a\x1b[31m\u202e\nb", "raw": "ff"}
    assert lines(path)[0]["who"] == "ada"
    await exporting.stop()


async def test_the_next_leader_goes_on_where_the_last_one_stopped(world: StoreWorld, path: Path) -> None:
    first = Exporting(world, path)
    await change(world, "c1")
    await first.round()
    await first.stop()
    await change(world, "c2")
    # The former exporter goes on writing, and the store refuses its position.
    stale = Exporting(world, path, epoch="1:former")
    with pytest.raises(StaleEpochError):
        await stale.exporter._round()
    await stale.stop()
    second = Exporting(world, path)
    await second.round()
    await second.stop()
    assert [target for _, _, target in targets(path)] == ["c1", "c2", "c2"]


async def test_entries_exported_and_not_noted_are_exported_again(
    world: StoreWorld, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporting = Exporting(world, path)
    await change(world, "c1")

    async def dies(*args: Any) -> bool:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(exporting.store, "save", dies)
        with pytest.raises(asyncio.CancelledError):
            await exporting.exporter._round()
    # An incomplete line at the end of the file does not spoil the next one.
    with path.open("a") as file:
        file.write('{"log":"cha')
    await exporting.stop()
    again = Exporting(world, path)
    await again.round()
    await again.stop()
    whole = [line for line in path.read_text().splitlines() if line.endswith("}")]
    assert [json.loads(line)["target"] for line in whole] == ["c1", "c1"]


async def test_a_file_that_was_rotated_is_made_anew(world: StoreWorld, path: Path) -> None:
    exporting = Exporting(world, path)
    await change(world, "c1")
    await exporting.round()
    rotated = path.rename(path.with_suffix(".1"))
    await change(world, "c2")
    await exporting.round()
    os.truncate(path, 0)
    await change(world, "c3")
    await exporting.round()
    await exporting.stop()
    assert ([t[2] for t in targets(rotated)], [t[2] for t in targets(path)]) == (["c1"], ["c3"])


async def test_many_entries_go_out_in_steps_and_a_gap_is_told(
    world: StoreWorld, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "ENTRIES_PER_STEP", 3)
    exporting = Exporting(world, path)
    for n in range(1, 8):
        await change(world, f"c{n}")
        await access(world, f"a{n}")
    await exporting.round()
    assert of_log(path, "changes") == [(n, f"c{n}") for n in range(1, 8)]
    assert of_log(path, "access") == [(n, f"a{n}") for n in range(1, 8)]
    assert_by_time(path)
    for n in range(8, 12):
        await change(world, f"c{n}")
    await admin_of(world.shard.client).xtrim(world.shard.keys.audit, maxlen=2, approximate=False)
    await exporting.round()
    await exporting.stop()
    assert targets(path)[14:] == [("changes", 10, "c10"), ("changes", 11, "c11")]
    assert "2 entries of the audit log changes were removed before they were exported" in caplog.text


async def test_a_file_that_cannot_be_written_is_told_and_tried_again(
    world: StoreWorld, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "missing" / "audit.jsonl"
    exporting = Exporting(world, path)
    await change(world, "c1")
    await exporting.exporter.start()
    await wait_until(lambda: "cannot export the audit log" in caplog.text, what="it says so")
    path.parent.mkdir()
    await exporting.clock.step(module.AGAIN_AFTER_S)
    await wait_until(lambda: path.exists() and lines(path), what="it goes out")
    await exporting.stop()
    assert exporting.stale == 0


async def test_a_busy_reader_of_the_standard_output_holds_no_stop_up(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(fileno=lambda: writer))
    sink = LineSink("stdout")
    try:
        sink.write(b"one line\n")
        assert os.read(reader, 100) == b"one line\n"
        ended: list[BaseException] = []

        def fill() -> None:
            try:
                sink.write(b"x" * 1_000_000)
            except SinkClosedError as exc:
                ended.append(exc)

        thread = threading.Thread(target=fill)
        thread.start()
        sink.end()
        await asyncio.to_thread(thread.join)
        assert len(ended) == 1
        sink.close()
    finally:
        os.close(reader)
        os.close(writer)


async def test_a_master_exports_what_people_do(store_server: StoreServer, path: Path) -> None:
    async with master_on(store_server.url, audit_export=str(path)) as (_, api):
        await api.call("PATCH", "/api/settings", {"login_attempts_per_minute": 11})
        await wait_until(lambda: path.exists() and lines(path), what="it is exported")
    assert [(line["action"], line["log"], line["number"]) for line in lines(path)] == [
        ("settings.change", "access", 1)
    ]
