"""The private parts of uvicorn and redis-py that this code uses.

`pyproject.toml` bounds both libraries from above. Before a bound is raised, these tests say what changed.
"""

import ast
import asyncio
import functools
import importlib.metadata
import inspect
import re
import tomllib
from pathlib import Path

import pytest
import redis.asyncio.connection
import uvicorn._types
from redis._parsers import helpers
from uvicorn.protocols.http import httptools_impl
from uvicorn.server import ServerState

from jqmaster.api.http import answer_cycle, connection
from tests.support.each import for_each
from worker_sdk.transport import guarded, http_server

ROOT = Path(__file__).parents[2]

UVICORN: dict[type, str] = {
    httptools_impl.HttpToolsProtocol: """
        _start_asgi_task access_logger app client config connection_lost connection_made connections cycle
        data_received expect_100_continue flow headers logger loop on_body on_header on_headers_complete
        on_message_begin on_message_complete on_response_complete on_url parser pipeline scheme scope server
        server_state shutdown tasks transport url
    """,
    httptools_impl.RequestResponseCycle: """
        body default_headers disconnected flow keep_alive message_event more_body on_response
        response_complete response_started scope send transport waiting_for_100_continue
    """,
    ServerState: "connections default_headers tasks total_requests",
}
REDIS: dict[type, str] = {
    redis.asyncio.connection.AbstractConnection: "_parser _reader _writer should_reconnect send_packed_command",
    redis.asyncio.connection.BlockingConnectionPool: "_get_free_connections release get_connection",
}


# Our subclasses of uvicorn classes.
HEIRS: dict[type, tuple[type, ...]] = {
    httptools_impl.HttpToolsProtocol: (
        guarded.GuardedProtocol,
        http_server.WorkerProtocol,
        connection.EdgeProtocol,
    ),
    httptools_impl.RequestResponseCycle: (answer_cycle.EdgeCycle,),
}


# Finding the source of a class takes longer than all else here.
source_of = functools.cache(inspect.getsource)


@functools.cache
def names_of(owner: type) -> set[str]:
    """Return the names on a class's instances: those it defines, and those set by its own and inherited methods."""
    found = set(dir(owner))
    for base in owner.__mro__[:-1]:
        found |= set(re.findall(r"self\.(\w+)", source_of(base)))
        found |= set(re.findall(r"^    (\w+):", source_of(base), re.MULTILINE))
    return found


def used_by(heirs: tuple[type, ...]) -> set[str]:
    """Return the attributes of `self` that these classes use without defining them."""
    defined: set[str] = set()
    used: set[str] = set()
    for heir in heirs:
        defined |= set(vars(heir))
        for node in ast.walk(ast.parse(source_of(heir))):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                defined.add(node.target.id)
            elif (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
            ):
                is_set_first = isinstance(node.ctx, ast.Store) and node.attr.startswith("_")
                (defined if is_set_first else used).add(node.attr)
    return used - defined


@pytest.mark.parametrize("owner", HEIRS)
def test_each_part_of_uvicorn_that_is_used_is_listed_here(owner: type) -> None:
    assert used_by(HEIRS[owner]) - set(UVICORN[owner].split()) == set()


def test_uvicorns_protocol_is_used_in_three_files_only() -> None:
    using = [
        path.relative_to(ROOT).as_posix()
        for package in ("jqmaster", "worker_sdk")
        for path in (ROOT / package).rglob("*.py")
        if "uvicorn.protocols" in path.read_text("utf-8")
    ]
    assert sorted(using) == [
        "jqmaster/api/http/answer_cycle.py", "jqmaster/api/http/connection.py", "worker_sdk/transport/guarded.py",
        "worker_sdk/transport/http_server.py",
    ]  # fmt: skip


def test_asyncio_still_has_the_unread_bytes_of_a_stream() -> None:
    """jqmaster/store/link/pool.py treats a connection with unread bytes as out of step."""
    assert "_buffer" in names_of(asyncio.StreamReader), "asyncio: StreamReader._buffer is gone"


@for_each(
    ("library", "owner", "name"),
    [
        (library, owner, name)
        for library, table in (("uvicorn", UVICORN), ("redis", REDIS))
        for owner, names in table.items()
        for name in names.split()
    ],
)
def test_a_private_part_is_still_there(library: str, owner: type, name: str) -> None:
    version = importlib.metadata.version(library)
    assert name in names_of(owner), (
        f"{library} {version}: {owner.__name__}.{name} is gone, and jqmaster/api/http/, "
        f"worker_sdk/transport/ or jqmaster/store/link/ uses it. Adapt them before the bound of {library} "
        f"in pyproject.toml is raised."
    )


@pytest.mark.parametrize("name", ["HEADER_RE", "HEADER_VALUE_RE", "STATUS_LINE"])
def test_the_tables_of_uvicorn_are_still_there(name: str) -> None:
    assert hasattr(httptools_impl, name), f"uvicorn: httptools_impl.{name} is gone"
    for kind in ("ASGISendEvent", "HTTPResponseBodyEvent", "HTTPResponseStartEvent"):
        assert hasattr(uvicorn._types, kind), f"uvicorn: _types.{kind} is gone"


def test_redis_still_reads_what_info_answers() -> None:
    assert helpers.parse_info(b"redis_version:7.2.4\r\n")["redis_version"] == "7.2.4"


@pytest.mark.parametrize(
    ("project", "library"),
    [("pyproject.toml", "uvicorn"), ("pyproject.toml", "redis"), ("worker_sdk/pyproject.toml", "uvicorn")],
)
def test_a_library_with_private_parts_in_use_is_bounded_from_above(project: str, library: str) -> None:
    described = tomllib.loads((ROOT / project).read_text())["project"]
    required = [*described["dependencies"], *described["optional-dependencies"].get("worker", [])]
    (bound,) = (line for line in required if line.startswith(f"{library}>"))
    assert re.search(r",<\d", bound), bound
