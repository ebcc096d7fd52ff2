"""One kind of mistake has one exit code, whichever command meets it and whoever finds it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jqmaster.cli.console import exits
from jqmaster.cli.root import app
from jqmaster.domain.ids import new_id
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer

pytestmark = real_time.PROCESSES

GONE = "01990000-0000-7000-8000-000000000000"
CALLS = (
    "enqueue a",
    "jobs",
    f"job {GONE}",
    "stats",
    "top --once",
    f"cancel {GONE}",
    f"delete {GONE} --yes",
    "workers list",
    "constraints put a --job-name x",
    "plan other.toml",
    "tokens list",
    "take a",
)
# Commands, by the exit code of their mistake.
MISTAKES: dict[int, tuple[str, ...]] = {
    exits.USAGE: (
        # an option or argument that the command line refuses
        "enqueue a --priority high",
        "jobs --limit 0",
        "workers drain",
        "users add ann emperor --password-file secret",
        "constraints put a --job-name x --rate often",
        "actions --end",
        # a value that the master refuses
        "enqueue no,name",
        "names --span 1y",
        "workers groups --by colour",
        "settings set lease_ms=-1",
        "jobs --state nowhere",
        "users add ann admin --password-file short",
        "constraints put a --match {}",
        # an address
        "top --once --master http://a:b",
        "conformance master http://a:b",
        "conformance target http://a:99999",
        "conformance worker http://a..b:80",
        "healthcheck --url http://a:99999/",
        "healthcheck --url http://127.0.0.1:b/",
        "namespaces list --master http://127.0.0.1:1/ns/shop",
        "fireworq import http://a:b",
        # a time
        "enqueue a --run-at tomorrow",
        "definitions backfill nightly yesterday today",
        "audit --since soon",
        "events send a.b null --at noon",
        "pause a --for long",
        "notices mute n --until never",
        "failures ignore 0 --for ever",
        # JSON
        "enqueue a {",
        "enqueue a --unique {",
        "events send a.b {",
        f"done {GONE} --success {{",
        "constraints put a --match {",
        "constraints preview {",
        # a file
        "enqueue a @absent",
        "enqueue --from absent",
        "events send a.b @absent",
        "constraints put a absent.toml",
        "definitions put a absent.toml",
        "notices put a absent.toml",
        "constraints plan absent.toml",
        "plan absent.toml",
        "users add ann admin --password-file absent",
        "stats --token-file absent",
        "constraints put a broken.toml",
        "definitions put a broken.toml",
        "constraints apply broken.toml",
        "apply broken.toml",
        "plan faulty.toml",
        "constraints plan faulty.toml",
        # an address
        "stats --master localhost",
        "enqueue a --master localhost",
        # options before a command
        "workers --json list",
    ),
    exits.NOT_FOUND: (
        f"job {GONE}",
        f"why {GONE}",
        f"logs {GONE}",
        f"result {GONE}",
        f"cancel {GONE}",
        f"delete {GONE} --yes",
        f"enqueue a --after {GONE}",
        f"enqueue a --batch {GONE}",
        f"batches show {GONE}",
        "constraints show absent",
        "constraints pause absent",
        "pause --constraint absent",
        "resume absent",
        "definitions show absent",
        "definitions show a/b",
        "definitions run absent",
        "notices show absent",
        f"events show {GONE}",
        f"challenges answer {GONE}",
        f"webhooks resend {GONE}",
        "workers drain absent",
        "workers drop-slot-rule absent",
        "failures ignore 0000000000000000",
        "tokens revoke absent",
        "users remove absent",
        f"actions {GONE}",
        "verify .",
        f"done {GONE} --success null",
    ),
    exits.REFUSED: (
        "enqueue other --id {taken}",
        "retry {taken}",
        "masters demote {master}",
        "constraints put there --job-name x --new",
        "constraints delete there --if-match other",
        "apply other.toml --token-file wrong",
        "stats --token-file wrong",
    ),
    exits.UNREACHABLE: (
        *(f"{line} --master http://127.0.0.1:1" for line in CALLS),
        # Every list takes the word.
        *(
            f"{name} list --master http://127.0.0.1:1"
            for name in (
                "actions",
                "audit",
                "batches",
                "constraints",
                "failures",
                "jobs",
                "names",
                "pauses",
                "users",
            )
        ),
        "doctor --redis redis://127.0.0.1:1",
        "fsck --redis redis://127.0.0.1:1",
        "healthcheck --url http://127.0.0.1:1/",
    ),
    exits.CHANGES: ("plan other.toml", "constraints plan other.toml"),
}
OTHER = (
    '[[constraint]]\nname = "other"\nmatcher = {field = "name", op = "eq", value = "x"}\nconcurrency = 3\n'
)
FILES = {
    "secret": "correct horse battery staple\n",
    "short": "short\n",
    "wrong": "not-a-token-of-this-master\n",
    "broken.toml": "= 3\n",
    "faulty.toml": OTHER.replace("eq", "resembles"),
    "other.toml": OTHER,
}


@pytest.fixture
async def names(
    store_server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[dict[str, str]]:
    """Yield what the commands name, on a master that the variables lead to."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    token = "the-token-of-an-admin-who-slips"
    async with master_on(store_server.url, tokens=[f"admin+push+work+operate+read:{token}"]) as (master, _):
        api = Api(master.server.url, token)
        taken = new_id()
        await api.enqueue("kept", id=taken, delay=600)
        there = {"matcher": {"field": "name", "op": "eq", "value": "there"}, "concurrency": 1}
        assert (await api.call("PUT", "/api/constraints/there", there))[0] == 201
        monkeypatch.setenv("JQMASTER_URL", master.server.url)
        monkeypatch.setenv("JQMASTER_TOKEN", token)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        yield {"taken": taken, "master": master.id}
        await api.http.aclose()


async def test_one_kind_of_mistake_has_one_exit_code(names: dict[str, str]) -> None:
    runner = CliRunner()
    faults = []
    for code, lines in MISTAKES.items():
        for line in lines:
            words = [names.get(word.strip("{}"), word) for word in line.split()]
            done = await asyncio.to_thread(runner.invoke, app, words)
            # One line, but for those of the API that name each invalid field, and the frame of the usage.
            if done.exit_code != code or "Traceback" in done.output:
                faults.append(f"{line}: {done.exit_code}, not {code}: {done.output[-200:]}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("status", "problem", "code"),
    [
        (400, "unparsable", exits.USAGE),
        (422, "invalid", exits.USAGE),
        (422, "already_expired", exits.USAGE),
        (422, "unknown_predecessor", exits.NOT_FOUND),
        (404, "unknown_job", exits.NOT_FOUND),
        (422, "unserved_name", exits.REFUSED),
        (401, "unauthorized", exits.REFUSED),
        (409, "conflict", exits.REFUSED),
        (413, "argument_too_large", exits.REFUSED),
        (429, "backlog_full", exits.REFUSED),
        (408, "receipt_deadline", exits.UNREACHABLE),
        (500, "internal", exits.UNREACHABLE),
        (501, "unknown_method", exits.UNREACHABLE),
        (503, "store_unavailable", exits.UNREACHABLE),
        (503, "overloaded", exits.UNREACHABLE),
    ],
)
def test_the_answer_of_a_master_decides_the_exit_code(status: int, problem: str, code: int) -> None:
    assert exits.code_of_answer(status, problem) == code
