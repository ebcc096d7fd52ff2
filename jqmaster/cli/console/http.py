"""Calls to a master. Every failure becomes a message and an exit code."""

import contextlib
import ipaddress
import os
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self
from urllib.parse import quote, urlsplit

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.settings import refuse_misspelt_variables
from worker_sdk.command_line.secrets_in_files import read_token
from worker_sdk.transport.namespaces import check_one_namespace, in_namespace, namespace_of, split_checked

if TYPE_CHECKING:
    import ssl

    import httpx

DEFAULT_MASTER = "http://127.0.0.1:8080"

_PANEL = "Master"
MasterOption = Annotated[
    str,
    typer.Option(
        "--master",
        envvar="JQMASTER_URL",
        help="Address of the master. May hold several, separated by blanks: the command uses the first that accepts a "
        "connection.",
        rich_help_panel=_PANEL,
    ),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        envvar="JQMASTER_NAMESPACE",
        help="Namespace at this master. '*' means all namespaces, for lists and `why`. Default: default.",
        rich_help_panel=_PANEL,
    ),
]
# There is no option for the token itself, because every process on the machine can read the command line.
TokenOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        envvar="JQMASTER_TOKEN_FILE",
        help="File with the bearer token. Default: the variable JQMASTER_TOKEN.",
        dir_okay=False,
        rich_help_panel=_PANEL,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON lines, for programs.")]

_PAGE = 200
# Time for a master to accept a connection, if there are others to try.
_CONNECT_S = 2.0
# The beginning of a master's text about a path that does not exist.
_NO_PATH = "no such path"
# The beginning of a master's text about a path that belongs to the whole installation.
_NOT_IN_NAMESPACE = "namespaces and users belong to the installation"
_OF_INSTALLATION = (
    "this command concerns the whole installation: give --master http://host:port without /ns/NAME"
)


class MasterSession:
    """A connection to one master, as a context manager. A failed call ends the command with the matching exit code.

    * `url`: an address, or several separated by blanks. The first that accepts a connection is used.
    * `as_json`: whether the output is JSON, for programs.
    """

    def __init__(
        self,
        url: str,
        token_file: Path | None,
        *,
        namespace: str | None = None,
        has_namespace: bool = True,
        as_json: bool = False,
        is_anonymous: bool = False,
    ) -> None:
        """
        * `has_namespace`: False if the calls concern the whole installation.
        * `is_anonymous`: send no token, not even the one in the environment.
        """
        refuse_misspelt_variables()
        import httpx

        self.token = token = None if is_anonymous else read_token(token_file)
        self.as_json = as_json
        self._has_namespace = has_namespace
        url = _first_that_accepts(_addresses(url, namespace, has_namespace=has_namespace))
        host = urlsplit(url).hostname or ""
        headers = {"Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self.url = url
        self._unserved: set[str] = set()
        # The limit at which a list ended although there may be more entries. None: all entries were listed.
        self._cut_at: int | None = None
        is_loopback = _is_loopback(host)
        self._options: dict[str, Any] = {
            "base_url": url.rstrip("/"),
            "headers": headers,
            "timeout": httpx.Timeout(30, connect=5),
            # Load the system's certificates only if they are needed, because loading takes 40 ms.
            "verify": _tls() or not (is_loopback and url.startswith("http:")),
            # For a loopback address, ignore a proxy from the environment, because the proxy cannot reach this
            # machine's loopback.
            "trust_env": not is_loopback,
        }
        # The problem document from the last failed call.
        self.problem: Mapping[str, Any] = {}
        # False: the last call was not sent to a master.
        self.was_sent = True
        try:
            self._http = httpx.Client(**self._options)
        except httpx.InvalidURL as error:
            exits.fail(exits.USAGE, f"--master {url}: {error}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def async_client(self) -> "httpx.AsyncClient":
        """Return a client for the same master and token, for use in an event loop."""
        import httpx

        return httpx.AsyncClient(**self._options)

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        admit: Container[int] = (),
        text: str | None = None,
        timeout_s: float = 30,
    ) -> "tuple[int, Any]":
        """Make a call. If the status is below 400 or in `admit`, return the status and the decoded answer.
        Otherwise, end the command.

        `text`: a body that is already JSON. Unlike `body`, it can be null.
        """
        import httpx

        if text is not None:
            headers = {**(headers or {}), "content-type": "application/json"}

        try:
            response = self._http.request(
                method,
                path,
                json=body,
                content=text,
                params={name: value for name, value in (query or {}).items() if value is not None},
                headers=headers,
                timeout=httpx.Timeout(timeout_s, connect=5),
            )
        except httpx.InvalidURL as error:
            exits.fail(exits.USAGE, f"{path[:80]} is not a valid path: {error}")
        except httpx.TransportError as error:
            self.was_sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            exits.fail(exits.UNREACHABLE, f"no answer from {self.url}: {_reason(error, self.url)}")
        if response.is_redirect:
            # Do not follow the redirect: the token is meant only for this address.
            place = response.headers.get("location", "")[:200]
            exits.fail(
                exits.REFUSED,
                f"{self.url} answered {response.status_code}, a redirect to {place}: give --master the address "
                f"of a master",
            )
        answer = _decoded(response)
        has_path = urlsplit(self.url).path not in ("", "/")
        if (
            has_path
            and response.status_code == 404
            and isinstance(answer, dict)
            and answer.get("code") == "not_found"
            # A 404 with a different detail comes from a master that explains it: the path belongs to the
            # installation, not to a namespace. Masters of earlier releases give no detail for a path that does
            # not exist.
            and str(answer.get("detail") or _NO_PATH).startswith(_NO_PATH)
        ):
            exits.fail(
                exits.USAGE, f"no jqmaster at {self.url}: it has no {path}; --master takes http://host:port"
            )
        if response.status_code >= 400 and response.status_code not in admit:
            self.problem = answer if isinstance(answer, dict) else {}
            if str(self.problem.get("detail")).startswith(_NOT_IN_NAMESPACE):
                exits.fail(exits.USAGE, f"{_OF_INSTALLATION}, and no --namespace")
            exits.fail(
                exits.code_of_answer(response.status_code, str(self.problem.get("code", ""))),
                _problem_text(response, answer) + self._remedy(response.status_code),
            )
        self._warn_of_names(response, is_push=not path.startswith("/api/pauses"))
        return response.status_code, answer

    def _remedy(self, status: int) -> str:
        """Return a text about getting the right that the master requires, or about naming another namespace. The
        text is empty if the answer concerns neither."""
        is_inside = namespace_of(self.url) is not None
        if status == 404 and is_inside and self.problem.get("code") == "unknown_namespace":
            return "\n  Check -n (--namespace) and the token. `jqmaster namespaces` lists those that you may see."
        if status == 403 and " the scope " in str(self.problem.get("detail")):
            remedy = "An administrator makes one with `jqmaster tokens create`."
            return f"\n  {self.url} needs a token with this scope. {remedy}"
        if status != 401:
            return ""
        if self.token:
            text = f"\n  {self.url} does not accept the token in JQMASTER_TOKEN or --token-file."
            if self._has_namespace and not is_inside:
                text += "\n  A token of a namespace is valid only there: give --namespace NAME (-n)."
            return text
        return f"\n  {self.url} needs a token: set JQMASTER_TOKEN, or give --token-file FILE."

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Return the answer to a GET."""
        return self.call("GET", path, query=query)[1]

    def post(self, path: str, body: Any = None) -> Any:
        """Return the answer to a POST."""
        return self.call("POST", path, body=body)[1]

    def says_json(self, answer: Any) -> bool:
        """Print the answer as a line of JSON if the output is for programs. Return whether the output is for
        programs."""
        if self.as_json:
            output.say_json(answer)
        return self.as_json

    def say(self, answer: Any, text: object) -> None:
        """Print the answer if the output is for programs, or else the text for people."""
        if not self.says_json(answer):
            output.say(text)

    def show_list(
        self,
        found: Iterable[dict[str, Any]],
        columns: Sequence[str],
        row: Callable[[dict[str, Any]], Sequence[object]],
        *,
        limit: int | None = None,
        more: str = "",
    ) -> None:
        """Print each item: for programs as a line of JSON, for people as a table row that `row` makes. On a
        terminal, say if the list ended at its limit.

        * `limit`: the limit of a list that was not read with `listed`.
        * `more`: another way to see more.
        """
        output.show_list(found, columns, row, as_json=self.as_json)
        self.tell_of_limit(found, limit, more)

    def tell_of_limit(self, found: Iterable[object], limit: int | None, more: str, where: str = "") -> None:
        """Say on a terminal if the list ended at its limit; see `show_list`. `where`: a text such as ` of
        namespace eu`."""
        if limit is not None and isinstance(found, Sized) and len(found) >= limit:
            self._cut_at = limit
        if self._cut_at is not None and not self.as_json and sys.stdout.isatty():
            text = f"  Only the first {self._cut_at:,}{where} are shown. --limit N shows up to N{more}."
            output.echo(text, is_error=True)

    def _warn_of_names(self, response: "httpx.Response", *, is_push: bool) -> None:
        """Warn about each pushed or paused name, once, if no worker has ever served it."""
        waits = ": the job waits until one does" if is_push else "; is it misspelt?"
        for name in filter(None, response.headers.get("jq-unserved-names", "").split(", ")):
            if name not in self._unserved:
                self._unserved.add(name)
                output.echo(
                    f"  No worker has ever served the name {name}{waits}{'.' if is_push else ''}",
                    is_error=True,
                )

    def listed(
        self, path: str, field: str, *, query: Mapping[str, Any] | None = None, limit: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the entries of `field` from the pages of a list, at most `limit`. Fetch each page when it is needed."""
        size = _PAGE if limit is None else min(limit, _PAGE)
        cursor, count = None, 0
        while True:
            _, page = self.call("GET", path, query={**(query or {}), "limit": size, "cursor": cursor})
            cursor, entries = page["next_cursor"], page[field]
            left = len(entries) if limit is None else limit - count
            yield from entries[:left]
            count += len(entries[:left])
            is_more = cursor is not None or len(entries) > left
            if is_more and count == limit:
                self._cut_at = limit
            if cursor is None or count == limit:
                return


def _addresses(url: str, namespace: str | None, *, has_namespace: bool) -> list[str]:
    """Return the addresses in the namespace. End the command if one is not valid, or names another namespace."""
    addresses = url.split()
    for address in addresses or [url]:
        try:
            split_checked(address)
        except ValueError:
            exits.fail(exits.USAGE, f"--master {address}: expected http://host:port")
        if not has_namespace and namespace_of(address) is not None:
            exits.fail(exits.USAGE, _OF_INSTALLATION)
    if not namespace:
        return addresses
    try:
        for address in addresses:
            check_one_namespace(address, namespace)
        return [in_namespace(address, namespace) for address in addresses]
    except ValueError as error:
        exits.fail(exits.USAGE, f"--namespace: {error}")


def _first_that_accepts(addresses: Sequence[str]) -> str:
    """Return the first address that accepts a connection, or the first of all if none does."""
    if len(addresses) > 1:
        import socket

        for address in addresses:
            parts = urlsplit(address)
            port = parts.port or (443 if parts.scheme == "https" else 80)
            with contextlib.suppress(OSError):
                socket.create_connection((parts.hostname, port), _CONNECT_S).close()
                return address
    return addresses[0]


def _reason(error: "httpx.TransportError", url: str) -> str:
    """Return a text about the error and its likely remedy."""
    from worker_sdk.transport.call_faults import OF_CLIENTS, cause_of, explained

    found: BaseException = error
    while (inner := found.__cause__ or found.__context__) is not None:
        found = inner
    import httpx

    if isinstance(error, httpx.RemoteProtocolError):
        found = EOFError("the connection was closed without an answer")
    elif isinstance(error, httpx.TimeoutException):
        found = TimeoutError()
    return explained(cause_of(found), url, OF_CLIENTS)


def _tls() -> "ssl.SSLContext | None":
    """Return the TLS context with the files in JQMASTER_CLIENT_…, which workers and pushers also use. None: no
    file is set."""
    files = [os.environ.get(f"JQMASTER_CLIENT_{name}") for name in ("CAFILE", "CERTFILE", "KEYFILE")]
    if not any(files):
        return None
    from worker_sdk.transport.tls import client_context

    try:
        return client_context(*(Path(file) if file else None for file in files)).context
    except OSError as error:
        exits.fail(exits.USAGE, f"JQMASTER_CLIENT_CAFILE, …_CERTFILE or …_KEYFILE cannot be used: {error}")


def path_of(collection: str, key: str, *rest: str) -> str:
    """Return the path of one object in a collection such as `/api/jobs`. `key` is untrusted text."""
    return "/".join([collection, quote(key, safe=""), *rest])


def job_path(job_id: str, *rest: str) -> str:
    return path_of("/api/jobs", job_id, *rest)


def _decoded(response: "httpx.Response") -> Any:
    if not response.content:
        return None
    try:
        return response.json()
    except ValueError:
        exits.fail(
            exits.REFUSED,
            f"{response.url.host} answered {response.status_code}, but not in JSON; "
            "check that this is the address of a master",
        )


def _problem_text(response: "httpx.Response", problem: Any) -> str:
    if not isinstance(problem, dict):
        return f"the master answered {response.status_code}"
    text = problem.get("detail") or problem.get("title") or f"the master answered {response.status_code}"
    lines = [f"{text} ({response.status_code} {problem.get('code', '')})"]
    # Skip errors if `detail` already contains their text.
    broken = [rule for rule in problem.get("errors") or [] if str(rule.get("msg")) not in text]
    lines += [rule_line(rule.get("loc", []), rule.get("msg")) for rule in broken]
    if problem.get("code") == "namespace_closed":
        # Programs repeat the call, as Retry-After says. People have to open the namespace first.
        name = namespace_of(str(response.request.url)) or "NAME"
        lines.append(f"  To serve it again: jqmaster namespaces open {name}")
    elif wait_s := response.headers.get("retry-after"):
        lines.append(f"  Try again in {wait_s} s.")
    return "\n".join(lines)


def rule_line(loc: Iterable[str | int], msg: object) -> str:
    """Format one invalid field, or an error about the whole request if `loc` is empty."""
    where = ".".join(map(str, loc))
    return f"  {where}: {msg}" if where else f"  {msg}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
