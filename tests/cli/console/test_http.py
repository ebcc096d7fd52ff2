"""Calls of commands to a master, against a transport inside the process."""

import functools
import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import typer

from jqmaster.cli.console.http import MasterSession

URL = "http://127.0.0.1:8080"
Answer = Callable[[httpx.Request], httpx.Response]


def session(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, *, token: str = "", as_json: bool = False
) -> MasterSession:
    client = functools.partial(httpx.Client, transport=httpx.MockTransport(answer))
    monkeypatch.setattr(httpx, "Client", client)
    monkeypatch.setenv("JQMASTER_TOKEN", token)
    return MasterSession(URL, None, as_json=as_json)


def pages_of(count: int) -> Answer:
    """Return the answers of a list with this many entries."""

    def answer(request: httpx.Request) -> httpx.Response:
        size, start = int(request.url.params["limit"]), int(request.url.params.get("cursor", 0))
        numbers = list(range(count))[start : start + size]
        following = str(start + size) if start + size < count else None
        return httpx.Response(200, json={"jobs": [{"n": n} for n in numbers], "next_cursor": following})

    return answer


@pytest.mark.parametrize(
    ("count", "limit", "shown"), [(3, 5, 3), (5, 5, 5), (6, 5, 5), (900, 450, 450), (450, 450, 450)]
)
def test_a_list_that_ends_at_its_limit_says_so_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], count: int, limit: int, shown: int
) -> None:
    def said(*, is_terminal: bool, as_json: bool = False) -> str:
        monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
        http = session(monkeypatch, pages_of(count), as_json=as_json)
        http.show_list(
            http.listed("/api/jobs", "jobs", limit=limit), ("N",), lambda one: (one["n"],), more=", too"
        )
        done = capsys.readouterr()
        assert len(done.out.splitlines()) == shown + (not as_json)
        return done.err

    text = f"  Only the first {limit:,} are shown. --limit N shows up to N, too.\n"
    assert said(is_terminal=True) == (text if count > limit else "")
    assert said(is_terminal=False) == said(is_terminal=True, as_json=True) == ""


@pytest.mark.parametrize(("count", "is_told"), [(4, False), (5, True)])
def test_a_list_of_one_page_that_is_full_says_so_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], count: int, is_told: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    http = session(monkeypatch, pages_of(0))
    http.show_list([{"n": n} for n in range(count)], ("N",), lambda one: (one["n"],), limit=5)
    assert ("Only the first 5 are shown." in capsys.readouterr().err) is is_told


def problem(status: int, code: str, detail: str) -> Answer:
    body: dict[str, Any] = {"status": status, "code": code, "detail": detail}
    return lambda _: httpx.Response(status, json=body)


@pytest.mark.parametrize(
    ("status", "detail", "token", "remedy"),
    [
        (401, "a bearer token or a login is required", "",
         f"\n  {URL} needs a token: set JQMASTER_TOKEN, or give --token-file FILE.\n"),
        (401, "the token is not valid", "jqm_x",
         f"\n  {URL} does not accept the token in JQMASTER_TOKEN or --token-file."
         "\n  A token of a namespace is valid only there: give --namespace NAME (-n).\n"),
        (403, "the caller does not have the scope operate", "jqm_x",
         f"\n  {URL} needs a token with this scope. An administrator makes one with `jqmaster tokens create`.\n"),
        (403, "the token is for other names", "jqm_x", "(403 refused)\n"),
    ],
)  # fmt: skip
def test_a_refusal_for_want_of_a_right_names_the_master_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    status: int,
    detail: str,
    token: str,
    remedy: str,
) -> None:
    http = session(monkeypatch, problem(status, "refused", detail), token=token)
    with pytest.raises(typer.Exit):
        http.get("/api/jobs")
    said = capsys.readouterr().err
    assert detail in said
    assert said.endswith(remedy)


def test_the_first_address_that_accepts_a_connection_is_used() -> None:
    with socket.create_server(("127.0.0.1", 0)) as second, socket.create_server(("127.0.0.1", 0)) as third:
        urls = [
            URL.replace("8080", str(port)) for port in (1, second.getsockname()[1], third.getsockname()[1])
        ]
        assert MasterSession(" ".join(urls), None).url == urls[1]
        assert MasterSession(f" {urls[2]}\t{urls[1]} ", None, namespace="shop").url == f"{urls[2]}/ns/shop"
    assert MasterSession(f"{urls[0]} {urls[1]}", None).url == urls[0]


@pytest.mark.parametrize(
    "url",
    ["http://a:b", "http://a:99999", "http://a b", "http://[::1", "http://a..b", "http://" + "a" * 70, "a:80", " ",
     "http://a\u200bb", "http://\xe4_.b", f"{URL} http://a:b"],
)  # fmt: skip
def test_a_malformed_address_is_refused_by_name(capsys: pytest.CaptureFixture[str], url: str) -> None:
    with pytest.raises(typer.Exit) as ended:
        MasterSession(url, None)
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err.startswith("Error: --master ")


def test_a_path_that_no_request_can_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(typer.Exit) as ended:
        session(monkeypatch, pages_of(0)).get("/api/jobs/" + "x" * 70_000)
    assert ended.value.exit_code == 2


def test_a_command_for_the_installation_takes_no_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        MasterSession(f"{URL}/ns/shop", None, has_namespace=False)
    assert ended.value.exit_code == 2
    assert "whole installation: give --master http://host:port without /ns/NAME\n" in capsys.readouterr().err
