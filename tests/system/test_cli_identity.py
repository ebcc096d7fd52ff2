"""Tokens and users from the command line, which never contains a secret."""

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from jqmaster.cli.root import app
from tests.support import real_time
from tests.support.cli import Outcome, jqmaster
from tests.system.test_cli import TASKS, Running, RunningAlone

pytestmark = [pytest.mark.system, real_time.PROCESSES]

ADMIN = "the-configured-admin-token"
PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("guarded")
    running = RunningAlone(
        directory, "serve", "--port", 0, "--data-dir", directory / "data", JQMASTER_TOKENS=f"admin:{ADMIN}"
    )
    try:
        yield next(word for word in running.said("serves on").split() if word.startswith("http://"))
    finally:
        assert running.end() == 0


def as_admin(url: str, *arguments: object, stdin: str = "") -> Outcome:
    return jqmaster(*arguments, stdin=stdin, JQMASTER_URL=url, JQMASTER_TOKEN=ADMIN)


@pytest.mark.req("D18")
@pytest.mark.rule("E1.2")
def test_tokens_by_command(url: str, tmp_path: Path) -> None:
    made = as_admin(
        url, "token", "create", "web shop", "--scope", "push", "--name", "mail.*", "--ttl-days", 90
    )
    assert made.code == 0, made.err
    text = made.out.strip()
    assert text.startswith("jqm_push_")
    (listed,) = as_admin(url, "token", "list", "--json").lines()
    assert (listed["label"], listed["scopes"], listed["names"]) == ("web shop", ["push"], ["mail.*"])
    assert text not in as_admin(url, "token", "list").out
    file = tmp_path / "token"
    rotated = as_admin(url, "token", "rotate", listed["id"], "--overlap-hours", 1, "--out", file)
    assert rotated.code == 0, rotated.err
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text().strip() not in rotated.out
    # An existing file is never overwritten, and then no token is made.
    assert as_admin(url, "token", "rotate", listed["id"], "--out", file).code == 2
    assert len(as_admin(url, "token", "list", "--json").lines()) == 2
    by_file = jqmaster("enqueue", "mail.send", "--master", url, "--token-file", file)
    assert by_file.code == 0, by_file.err
    assert as_admin(url, "token", "revoke", listed["id"]).code == 0
    assert as_admin(url, "token", "revoke", listed["id"]).code == 3
    refused = jqmaster("enqueue", "mail.send", JQMASTER_URL=url, JQMASTER_TOKEN=text)
    assert refused.code == 4
    assert "401" in refused.err


@pytest.mark.req("D18")
def test_a_token_for_no_name_is_not_made_for_all_names(url: str) -> None:
    before = as_admin(url, "token", "list", "--json").lines()
    refused = as_admin(url, "token", "create", "x", "--scope", "push", "--name", "")
    assert (refused.code, refused.out) == (2, "")
    assert "--name" in refused.err
    assert as_admin(url, "token", "list", "--json").lines() == before
    made = as_admin(url, "token", "create", "all names", "--scope", "push", "--json")
    assert made.code == 0, made.err
    (new,) = [one for one in as_admin(url, "token", "list", "--json").lines() if one not in before]
    assert (new["label"], new["names"]) == ("all names", [])
    assert as_admin(url, "token", "revoke", new["id"]).code == 0


@pytest.mark.rule("E1.4")
def test_users_by_command(url: str, tmp_path: Path) -> None:
    name = f"ada-{uuid.uuid4().hex[:8]}"  # a rerun still finds the users of the first
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    added = as_admin(url, "user", "add", name, "operator", "--password-file", file)
    assert (added.code, added.out.split()) == (0, [name, "operator"]), added.err
    assert as_admin(url, "user", "add", name, "viewer", "--password-file", "-", stdin=PASSWORD).code == 4
    assert as_admin(url, "user", "add", "bob", "viewer", "--password-file", "-", stdin="short").code == 2
    assert as_admin(url, "user", "set-role", name, "viewer").code == 0
    assert as_admin(url, "user", "password", name, "--password-file", "-", stdin=PASSWORD + "2").code == 0
    assert as_admin(url, "user", "disable", name).code == 0
    (user,) = [one for one in as_admin(url, "user", "list", "--json").lines() if one["name"] == name]
    assert (user["name"], user["role"], user["is_disabled"]) == (name, "viewer", True)
    assert "disabled" in as_admin(url, "user", "list").out
    assert as_admin(url, "user", "enable", name).out.split() == [name, "viewer"]
    assert as_admin(url, "user", "remove", name).code == 0
    assert as_admin(url, "user", "remove", name).code == 3


@pytest.mark.rule("E1.4")
def test_users_change_their_own_password_by_command(url: str, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text(PASSWORD)
    new.write_text("seven plums in a hat")
    assert as_admin(url, "user", "add", "eve", "viewer", "--password-file", old).code == 0
    change = (
        "user",
        "change-password",
        "eve",
        "--master",
        url,
        "--old-password-file",
        old,
        "--password-file",
        new,
    )
    # An available token does not matter here.
    done = jqmaster(*change, JQMASTER_TOKEN=ADMIN)
    assert (done.code, done.out.strip()) == (0, "eve: the password was changed"), done.err
    again = jqmaster(*change)
    assert again.code == 4
    assert "401" in again.err
    assert as_admin(url, "user", "end-sessions", "eve").code == 0
    assert as_admin(url, "user", "end-sessions", "nobody").code == 3


def test_a_redirect_is_told_in_words_and_gets_no_token() -> None:
    seen: list[str | None] = []

    class Redirecting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization") if self.path.startswith("/elsewhere") else None)
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Redirecting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            master = f"http://127.0.0.1:{server.server_port}"
            done = jqmaster("jobs", JQMASTER_URL=master, JQMASTER_TOKEN=ADMIN)
        finally:
            server.shutdown()
            thread.join()
    assert done.code == 4
    assert "Traceback" not in done.err
    assert f"{master} answered 302, a redirect to /elsewhere" in done.err
    assert seen == [None]


@pytest.mark.rule("E1.7")
def test_no_secret_stands_on_a_command_line(url: str, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    worker = RunningAlone(
        tmp_path, "worker", "tasks:worker", "--master", url, "--processes", 2, JQMASTER_TOKEN=ADMIN
    )
    try:
        until(lambda: len(jqmaster("workers", "--json", JQMASTER_URL=url, JQMASTER_TOKEN=ADMIN).lines()) == 2)
        lines = command_lines()
        assert any(b"tasks:worker" in line for line in lines)
        assert any(b"valkey" in line for line in lines)
        assert [line for line in lines if ADMIN.encode() in line] == []
    finally:
        worker.end()


def command_lines() -> list[bytes]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # the process has just ended
            found.append(path.read_bytes())
    return found


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline


@pytest.mark.rule("E1.7")
@pytest.mark.parametrize(
    "address",
    [
        "redis://:s3cr3t@127.0.0.1:1",
        "rediss://user:s3cr3t@127.0.0.1:1/2",
        "redis+sentinel://u:s3cr3t@127.0.0.1:1/main",
        "unix://:s3cr3t@/tmp/x",
        "redis://127.0.0.1:1?password=s3cr3t",
    ],
)
def test_a_password_of_the_store_is_refused_there(address: str) -> None:
    for command in ("serve", "doctor", "fsck"):
        refused = CliRunner().invoke(app, [command, "--redis", address])
        assert refused.exit_code == 2
        assert "JQMASTER_REDIS_URL" in refused.stderr
        assert "s3cr3t" not in refused.output


@pytest.mark.rule("E1.7")
def test_a_token_is_no_argument() -> None:
    options = {option for command in commands(get_command(app)) for p in command.params for option in p.opts}
    assert {"--token-file", "--password-file"} <= options
    assert not options & {"--token", "--password", "--secret"}


def commands(command: Any) -> Iterator[Any]:
    yield command
    for inner in getattr(command, "commands", {}).values():
        yield from commands(inner)


@pytest.mark.rule("E6.4")
def test_the_audit_log_is_followed(url: str, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    assert as_admin(url, "user", "add", "zoe", "viewer", "--password-file", password).code == 0
    following = Running(
        tmp_path, "audit", "--follow", "--json", "--limit", 1, JQMASTER_URL=url, JQMASTER_TOKEN=ADMIN
    )
    try:
        assert '"action":"user.add"' in following.said('"target":"zoe"')
        assert as_admin(url, "user", "set-role", "zoe", "operator").code == 0
        assert '"log":"access"' in following.said("user.change")
    finally:
        following.end()
    assert as_admin(url, "audit", "--follow", "--target", "x").code == 2
