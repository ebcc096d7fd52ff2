"""Logs of a master: events as data, without secrets, and without text that controls a terminal or starts a line."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
import structlog

from jqmaster.cli.console import logs
from jqmaster.cli.console.output import escape_controls
from jqmaster.config import Settings
from jqmaster.domain.ids import new_id
from jqmaster.log_context import REQUEST, RequestContext
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer

pytestmark = real_time.MASTER

Written = Callable[[], str]
LogFormat = Literal["console", "json"]

MARKER = "s3cr3t-m4rk3r"


@pytest.fixture
def written() -> Iterator[Callable[..., Written]]:
    """Return a function that starts to capture the logs of this process in a format."""
    handlers = []

    def begin(log_format: LogFormat, *secrets: str) -> Written:
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(logs.LineFormatter(log_format, secrets))
        logging.getLogger().addHandler(handler)
        handlers.append(handler)
        return stream.getvalue

    yield begin
    for handler in handlers:
        logging.getLogger().removeHandler(handler)


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_messages_are_data(written: Callable[..., Written]) -> None:
    text = written("json")
    log = logging.getLogger("jqmaster.test")
    log.warning("job %s, attempt %d on worker %s: %s", "j1", 3, "w1", "lost")
    log.warning("cannot order worker %s to stop job %s: %s", "w2", "j2", "no")
    log.warning("half done, %d%% of worker %s", 50, "w3")
    log.warning("nothing to name")
    first, second, third, fourth = events(text())
    assert (first["event"], first["level"], first["logger"]) == (
        "job j1, attempt 3 on worker w1: lost", "warning", "jqmaster.test",
    )  # fmt: skip
    assert first["at"].endswith("Z")
    assert (first["job_id"], first["worker_id"]) == ("j1", "w1")
    assert (second["job_id"], second["worker_id"]) == ("j2", "w2")
    assert (third["event"], third["worker_id"]) == ("half done, 50% of worker w3", "w3")
    assert fourth.keys() == {"event", "level", "logger", "at"}


def test_a_request_is_named_with_what_it_is_about(written: Callable[..., Written]) -> None:
    text = written("json")
    token = REQUEST.set(RequestContext(b"client-7", {"job_id": "j9", "name": "other"}))
    try:
        logging.getLogger("jqmaster.test").warning("something")
    finally:
        REQUEST.reset(token)
    (event,) = events(text())
    assert (event["request_id"], event["job_id"]) == ("client-7", "j9")


@pytest.mark.rule("E6.2")
@pytest.mark.parametrize("log_format", ["console", "json"])
@pytest.mark.parametrize("logger", ["jqmaster.api", "uvicorn.access", "uvicorn.error"])
def test_text_from_others_begins_no_line_and_moves_no_cursor(
    written: Callable[..., Written],
    log_format: LogFormat,
    logger: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A server in this process has turned propagation off, as masters do, and uvicorn does so for all of its loggers.
    for name in (logger, "uvicorn"):
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
    text = written(log_format)
    hostile = "a\r\n2026-01-01 CRITICAL jqmaster: forged\x1b[2J\x1b]0;t\x07\x9b31m\x7f\u202e\u2066"
    logging.getLogger(logger).warning('%s - "%s %s HTTP/%s" %d', "1.2.3.4", "GET", hostile, "1.1", 200)
    token = REQUEST.set(RequestContext(hostile.encode(), {"job_id": hostile}))
    try:
        logging.getLogger(logger).warning("odd")
    finally:
        REQUEST.reset(token)
    out = text()
    assert out.count("\n") == 2
    assert out.endswith("\n")
    assert all(ch.isprintable() or ch == "\n" for ch in out)
    assert "forged" in out
    if log_format == "json":
        assert all(event["event"] for event in events(out))


@pytest.mark.rule("E6.1")
@pytest.mark.parametrize("log_format", ["console", "json"])
def test_secrets_are_told_to_nobody(written: Callable[..., Written], log_format: LogFormat) -> None:
    known = "configured-" + MARKER
    text = written(log_format, known)
    log = logging.getLogger("jqmaster.test")
    for line in (
        f"Authorization: Bearer {MARKER}",
        f"headers {{'authorization': 'Bearer {MARKER}', 'x': '1'}}",
        f"[(b'cookie', b'jq_session={MARKER}; other={MARKER}')]",
        f"Set-Cookie: jq_session={MARKER}; HttpOnly",
        f"x-csrf-token: {MARKER}",
        f"cannot reach rediss://user:{MARKER}@10.0.0.1:6379/0",
        f"cannot reach redis+sentinel://:{MARKER}@a:1,b:2/main, nor smtp://u:{MARKER}@mail",
        f"first token jqm_admin_12ab_{MARKER.replace('-', '_')}",
        f"password={MARKER} secret: '{MARKER}' token={MARKER}, signing_key=\"{MARKER}\"",
        f"it says {known} somewhere",
    ):
        log.warning("%s", line)
        log.warning("value", extra={"not_shown": line})
    try:
        raise ValueError(f"bad url redis://:{MARKER}@host")
    except ValueError:
        log.exception("failed")
    structlog.wrap_logger(log, processors=[structlog.stdlib.ProcessorFormatter.wrap_for_formatter]).warning(
        "by structlog", authorization=f"Authorization: {MARKER}"
    )
    out = text()
    assert MARKER not in out
    assert MARKER.replace("-", "_") not in out
    assert "10.0.0.1:6379" in out
    assert "ValueError" in out


def test_the_secrets_of_a_configuration_are_known() -> None:
    settings = Settings(
        redis_url="redis+sentinel://user:p%40ssword1@a:1,b:2/main",
        tokens=["read+push:the-token-itself"],
        sentinel_password="sentinel-password",
    )
    found = logs.secrets_of(settings)
    assert {"the-token-itself", "sentinel-password", "p%40ssword1", "p@ssword1"} <= set(found)


@pytest.mark.rule("E6.1")
async def test_no_secret_of_a_request_is_logged(
    store_server: StoreServer, written: Callable[..., Written]
) -> None:
    """Try each way in which a request can carry a secret, also when the master fails on it."""
    async with master_on(store_server.url, tokens=[f"admin:{MARKER}"]) as (master, api):
        text = written("json")
        logging.getLogger("jqmaster").setLevel("DEBUG")
        secretive = Api(str(api.http.base_url), MARKER)

        def broken(*_: object) -> Any:
            raise RuntimeError(f"unforeseen, with Authorization: Bearer {MARKER}")

        try:
            await secretive.enqueue("work", {"password": MARKER})
            master.shard.services.jobs.view = broken  # type: ignore[method-assign,assignment]
            failed = await secretive.http.get(f"/api/jobs/{new_id()}")
            assert failed.status_code == 500
            assert MARKER not in failed.text
            await api.http.get("/api/jobs", headers={"Authorization": f"Bearer x{MARKER}", "Cookie": MARKER})
        finally:
            logging.getLogger("jqmaster").setLevel("NOTSET")
            await secretive.http.aclose()
        (event,) = [event for event in events(text()) if event["event"].startswith("incident")]
        assert event["request_id"] == failed.headers["x-request-id"]
        assert event["job_id"]
        assert "RuntimeError" in event["exception"]
        assert MARKER not in text()


async def test_a_request_keeps_the_id_that_it_came_with(api: Api) -> None:
    for sent in ("abc-1.2:3/4+5=6@7", "0" * 128):
        response = await api.http.get("/api/jobs", headers={"X-Request-ID": sent})
        assert response.headers["x-request-id"] == sent
        response = await api.http.get("/api/jobs/x", headers={"X-Request-ID": sent})
        assert (response.status_code, response.headers["x-request-id"]) == (404, sent)
    for refused in ("0" * 129, "two words", "é".encode(), 'quote"', ""):
        headers: Any = {"X-Request-ID": refused}
        response = await api.http.get("/api/jobs/x", headers=headers)
        assert response.headers["x-request-id"] not in ("", refused)
    assert "x-request-id" not in (await api.http.get("/api/jobs")).headers


PLAIN = ("row 7 of 1,000,000 has been imported", "a (b) [c] {d} 'e' \"f\" g@h", "MiXeD: 100%, é", "tab\there")


@pytest.mark.parametrize(
    "text",
    [
        *PLAIN,
        *(f"{text} {more}" for text in PLAIN[:2] for more in (
            "Authorization: Basic abc", "proxy-authorization=abc", "COOKIE: a=b", "set-cookie: a", "X-CSRF-Token: a",
            "x-jq-signature: abc", "Bearer abc.def", "redis://user:pw@host", "jqm_abcdef", "password=abc", "PASSWD: a",
            "passphrase = abc", "secret: abc", "secret_key: abc", "signing_key=abc", "api_key: abc", "csrf_token: a",
            "token=abc", MARKER, "\x1b[31m", "\u202e", "\n next", "to\u212aen: abc", "pa\u017fsword: abc",
        )),
    ],
)  # fmt: skip
def test_text_counts_as_plain_exactly_if_the_patterns_leave_it_as_it_is(text: str) -> None:
    kept = escape_controls(logs.redacted(text, (MARKER,)))
    assert not logs._is_plain(text, (MARKER,)) or kept == text
    event: dict[str, Any] = {"event": text}
    logs._make_harmless(event, (MARKER,), keeps_lines=True)
    assert event["event"] == kept
