"""The parts of uvicorn and redis-py that are not their public interface, and that this code uses.

`pyproject.toml` bounds both libraries from above. Before a bound is raised, these tests say what changed.
"""

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

ROOT = Path(__file__).parents[2]

UVICORN: dict[type, str] = {
    httptools_impl.HttpToolsProtocol: """
        _start_asgi_task app config connection_lost connection_made connections cycle data_received expect_100_continue flow
        headers loop on_body on_header on_headers_complete on_message_begin on_message_complete on_response_complete on_url
        parser pipeline scheme scope server server_state shutdown tasks transport url
    """,
    httptools_impl.RequestResponseCycle: """
        body default_headers disconnected flow keep_alive message_event more_body on_response response_complete
        response_started scope send transport waiting_for_100_continue
    """,
    ServerState: "connections default_headers tasks total_requests",
}
REDIS: dict[type, str] = {
    redis.asyncio.connection.AbstractConnection: "_parser _reader _writer should_reconnect send_packed_command",
    redis.asyncio.connection.BlockingConnectionPool: "_get_free_connections release get_connection",
}


def names_of(owner: type) -> set[str]:
    """What instances of a class have: what it defines, and what its methods and those of its bases set."""
    found = set(dir(owner))
    for base in owner.__mro__[:-1]:
        found |= set(re.findall(r"self\.(\w+)", inspect.getsource(base)))
        found |= set(re.findall(r"^    (\w+):", inspect.getsource(base), re.MULTILINE))
    return found


@pytest.mark.parametrize(
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
        f"{library} {version}: {owner.__name__}.{name} is gone, and jqmaster/api/http/server.py, worker_sdk/transport/http_server.py or "
        f"jqmaster/store/ uses it. Adapt them before the bound of {library} in pyproject.toml is raised."
    )


@pytest.mark.parametrize("name", ["HEADER_RE", "HEADER_VALUE_RE", "STATUS_LINE"])
def test_the_tables_of_uvicorn_are_still_there(name: str) -> None:
    assert hasattr(httptools_impl, name), f"uvicorn: httptools_impl.{name} is gone"
    for kind in ("ASGISendEvent", "HTTPResponseBodyEvent", "HTTPResponseStartEvent"):
        assert hasattr(uvicorn._types, kind), f"uvicorn: _types.{kind} is gone"


def test_redis_still_reads_what_info_answers() -> None:
    assert helpers.parse_info(b"redis_version:7.2.4\r\n")["redis_version"] == "7.2.4"


@pytest.mark.parametrize("library", ["uvicorn", "redis"])
def test_a_library_with_private_parts_in_use_is_bounded_from_above(library: str) -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (bound,) = (line for line in dependencies if line.startswith(f"{library}>"))
    assert re.search(r",<\d", bound), bound
