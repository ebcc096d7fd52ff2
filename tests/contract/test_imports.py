"""Imports flow one way, and what is pure stays pure."""

import ast
import functools
import sys
from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.support.each import for_each

ROOT = Path(__file__).parents[2]

# Allowed imports: a package may import itself and those in its set. All may import leaves.
LEAVES = {
    "errors",
    "clock",
    "config",
    "lifecycle",
    "net",
    "tracing",
    "log_context",
    "live_value",
    "shared_bound",
}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "conformance": set(),
    "log_context": set(),
    "live_value": set(),
    "shared_bound": {"live_value"},
    "clock": set(),
    "config": {"net"},
    "net": {"errors"},
    "tracing": {"config", "errors", "net"},
    "lifecycle": {"clock", "errors"},
    "domain": {"errors"},
    "store": LEAVES | {"domain"},
    "embedded": LEAVES,
    "service": LEAVES | {"domain", "store"},
    "runtime": LEAVES | {"domain", "store", "service"},
    "agents": set(),
    "api": LEAVES | {"domain", "store", "service", "agents"},
    "spec": LEAVES | {"domain", "api"},
    "app": LEAVES | {"domain", "store", "service", "runtime", "api", "spec", "embedded"},
    "cli": LEAVES | {"domain", "store", "service", "api", "embedded", "app", "conformance", "agents"},
    "__init__": set(),
    "__main__": {"cli"},
}
# Rooms and modules of the SDK that a package of the server may import; for all others it is transport.
OF_THE_SDK = {"cli": {"transport", "command_line", "outbox", "worker.first_process"}}
# Which rooms each room of a layer may import, besides itself. "" is the door: the layer's files outside rooms. If a
# single file may enter a room, it is named as ROOM.FILE.
ROOMS: dict[str, dict[str, set[str]]] = {
    "domain": {
        "": set(),
        "matching": set(),
        "jobs": {"matching"},
        "constraints": {"", "matching"},
        "operations": {"", "jobs", "calendars.ending", "workers.worker"},
        "workers": {"operations.tally", "jobs.reserved_names"},
        "why": {"", "matching", "jobs", "constraints", "workers"},
        "identity": {"namespaces.namespace"},
        "challenges": {""},
        "calendars": {"matching.checks"},
        "definitions": {"", "matching", "jobs", "calendars"},
        "events": {"", "matching", "definitions"},
        "batches": {"", "jobs"},
        "logs": {"jobs"},
        "notices": {"", "matching", "jobs"},
        "content": {"identity", "matching", "jobs"},
        "targets": {"", "matching", "jobs", "notices.webhook", "challenges.challenge"},
        "fireworq": {".ids"},
        "namespaces": {"matching.checks"},
        "personal_data": {"jobs.job", "matching.paths"},
    },
    "api": {
        "": {
            "http",
            "encoding",
            "jobs",
            "workers",
            "constraints",
            "calendars",
            "definitions",
            "events",
            "batches",
            "challenges",
            "logs",
            "notices",
            "targets",
            "namespaces",
            "personal_data",
            "identity",
            "operations",
            "fireworq",
        },
        "http": {"encoding", ".services"},
        "encoding": {".schemas"},
        "jobs": {
            "http",
            "encoding",
            "batches.schemas",
            "logs.handlers",
            "logs.routes",
            ".schemas",
            ".services",
        },
        "workers": {"http", "encoding", "jobs.outcome_schemas", ".schemas"},
        "constraints": {"http", "encoding", "jobs", ".schemas"},
        "calendars": {"http", ".schemas"},
        "definitions": {"http", "encoding", "jobs", ".schemas"},
        "events": {"http", "encoding", ".schemas"},
        "batches": {
            "http",
            "jobs.handlers",
            "jobs.schemas",
            "jobs.flows",
            "jobs.flow_schemas",
            "definitions.schemas",
            "jobs.views",
            ".schemas",
        },
        "challenges": {"http", "encoding", ".schemas"},
        "logs": {"http", "jobs.handlers", ".schemas"},
        "notices": {"http", "jobs.schemas", "jobs.views", ".schemas"},
        "targets": {"http", ".schemas"},
        "namespaces": {"http", ".schemas", ".services"},
        "personal_data": {"http", "jobs.handlers", "jobs.schemas", ".schemas"},
        "identity": {"http", ".schemas"},
        "fireworq": {"http", "encoding", "jobs.handlers", ".services"},
        "operations": {"http", "encoding", "identity.audit", "jobs.action_views", ".schemas"},
    },
    "service": {
        "": set(),
        "jobs": {"constraints"},
        "workers": {"constraints", "jobs.coalescing"},
        "constraints": {""},
        "calendars": {"", "definitions.firing"},
        "definitions": {"", "constraints"},
        "events": {"constraints", "jobs.coalescing", "jobs.push_pace"},
        "batches": {"constraints", "jobs"},
        "challenges": {"jobs.reader", "identity.audit_writer"},
        "logs": {"jobs"},
        "notices": {"", "calendars.ending", "constraints", "jobs"},
        "targets": {""},
        "identity": {"jobs.coalescing"},
        "namespaces": {"", "operations.remembered"},
        "personal_data": {"jobs.failures"},
        "fireworq": {"", "constraints", "jobs.enqueue", "targets"},
        "operations": {
            "calendars.ending",
            "constraints",
            "definitions.reader",
            "jobs.failures",
            "jobs.why",
            "workers.masters",
        },
    },
    "store": {
        "": set(),
        "link": {".keys"},
        "jobs": {"", "link"},
        "constraints": {"", "link", "jobs", "identity.audit"},
        "calendars": {"", "link", "identity.audit"},
        "definitions": {"", "link", "jobs.placement", "identity.audit", "calendars"},
        "events": {"", "link", "jobs.placement", "definitions.definitions", "definitions.documents"},
        "batches": {"", "link", "jobs.placement"},
        "workers": {"", "link", "jobs.claims", "identity.audit"},
        "logs": {"", "link"},
        "notices": {"", "link", "jobs.records", "jobs.challenges", "identity.audit"},
        "targets": {"", "link", "identity.audit"},
        "leadership": {"", "link", "identity.audit"},
        "identity": {"", "link"},
        "operations": {"", "link", "identity.audit"},
        "fireworq": {"link", "identity.audit", ".codec"},
        "namespaces": {"", "link", "identity.audit", "backup.loading", "backup.values"},
        "personal_data": {"", "link", "jobs.operator_actions", "logs.logs", "identity.audit"},
        "backup": {"", "link"},
        "health": {
            "",
            "link",
            "jobs",
            "constraints",
            "batches.documents",
            "calendars.documents",
            "definitions.documents",
            "identity.audit",
        },
    },
    "runtime": {
        "": {"leadership", "duties"},
        "leadership": {".periodic_loop"},
        "duties": {"outbound", ".periodic_loop"},
        "outbound": set(),
        "targets": {"outbound"},
        "namespaces": {".periodic_loop"},
        "watch": {"duties", ".periodic_loop"},
    },
    "spec": {"": {"examples"}, "examples": set()},
    "cli": {
        "": {"commands", "console"},
        "commands": {"console", "declared", "process", "transfer"},
        "transfer": {"console"},
        "declared": {"console"},
        "process": {"console", "commands.serve"},
        "console": set(),
    },
    "worker_sdk": {
        "": {
            "worker",
            "pusher",
            "tasks",
            "testing",
            "middleware",
            "outbox",
            "django",
            "celery_compat",
            "command_line",
            "dependencies.depends",
            "transport.console_log",
            "transport.namespaces",
            "transport.option_names",
            "transport.standard_streams",
            "transport.tls",
        },
        "command_line": {"", "transport", "worker.first_process"},
        "outbox": {
            "",
            "middleware.base",
            "pusher",
            "tasks.client",
            "transport.namespaces",
            "worker.context",
        },
        "django": {"", "outbox", "pusher", "tasks.client", "transport.namespaces", "worker.command"},
        "django.migrations": set(),
        "django.management.commands": {"", "django", "outbox.relay", "transport.standard_streams"},
        "worker": {
            "",
            "pusher",
            "masters",
            "tasks.value_codec",
            "transport",
            "middleware.base",
            "dependencies",
        },
        "middleware": {"", "worker.context"},
        "dependencies": {".generators", ".parameters", "worker.context"},
        "testing": {"", "worker", "pusher", "tasks", "transport.suggestions"},
        "tasks": {
            "",
            "pusher",
            "dependencies.depends",
            "transport.suggestions",
            "worker.command",
            "worker.context",
            "worker.gather",
            "worker.inputs",
            "worker.lease",
            "worker.names",
            "worker.outcomes",
            "worker.policies",
            "worker.registry",
        },
        "pusher": {"", "masters", "transport"},
        "masters": {"", "transport"},
        "transport": {".forked", ".protocol"},
        "celery_compat": {
            "",
            "tasks",
            "testing.kit",
            "worker.context",
            "worker.names",
            "worker.outcomes",
            "worker.progress",
            "worker.registry",
        },
        "celery_compat.utils": set(),
    },
}
IMPURE = {
    "aiohttp", "asyncio", "httpx", "http", "logging", "redis", "requests", "socket", "starlette", "subprocess",
    "threading", "urllib.request", "uvicorn",
}  # fmt: skip
CLOCK_READS = {
    ("time", "time"),
    ("time", "time_ns"),
    ("time", "monotonic"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
}
KNOWS_REDIS = {"store", "embedded"}
# The modules and packages that may import a library of others: all that do, so that it can be replaced in one place.
LIBRARIES: dict[str, set[str]] = {
    "aiosmtplib": {"jqmaster.runtime.outbound.mail_client"},
    "apispec": {"jqmaster.spec.openapi"},
    "argon2": {"jqmaster.service.identity.passwords"},
    "asgiref": {"worker_sdk.django", "worker_sdk.middleware.django"},
    "cronsim": {"jqmaster.domain.definitions.schedule"},
    "cryptography": {"jqmaster.store.backup.encryption", "worker_sdk.sealing"},
    "dateutil": {"jqmaster.service.calendars.source_child"},
    "django": {"worker_sdk.celery_compat", "worker_sdk.django", "worker_sdk.middleware.django"},
    "hiredis": {"jqmaster.store.backup.tracked", "jqmaster.store.link.pool"},
    "holidays": {"jqmaster.service.calendars.source_child"},
    "httptools": {"jqmaster.api.http.connection", "worker_sdk.transport"},
    "httpx": {"jqmaster.agents", "jqmaster.api", "jqmaster.cli", "jqmaster.net", "worker_sdk.django"},
    "icalendar": {"jqmaster.service.calendars.source_child"},
    "joserfc": {"jqmaster.net"},
    "jsonschema_rs": {"jqmaster.agents.tool", "jqmaster.service.workers.schemas"},
    "mcp": {"jqmaster.agents.server"},
    "mcp_types": {"jqmaster.agents.server"},
    "msgpack": {"jqmaster", "worker_sdk.sealing", "worker_sdk.wire", "worker_sdk.worker"},
    "msgspec": {"jqmaster.api", "jqmaster.domain", "jqmaster.service", "jqmaster.store", "worker_sdk.tasks"},
    "obstore": {"jqmaster.store.logs.archive"},
    "opentelemetry": {"jqmaster.tracing", "worker_sdk.tracing"},
    "prometheus_client": {
        "jqmaster.cli.commands.outbox",
        "jqmaster.service.operations.metric_families",
        "jqmaster.service.operations.metrics",
        "jqmaster.service.operations.metrics_page",
        "jqmaster.service.operations.process_metrics",
    },
    "pydantic": {"jqmaster", "worker_sdk.tasks"},
    "pydantic_settings": {"jqmaster.config", "jqmaster.service.operations.live_settings"},
    "pytest": {"worker_sdk.testing.pytest_plugin"},
    "redis": {"jqmaster.embedded", "jqmaster.store"},
    "rich": {"jqmaster.cli"},
    "sentry_sdk": {"worker_sdk.middleware.sentry"},
    "sqlalchemy": {"worker_sdk.outbox.sqlalchemy", "worker_sdk.outbox.sqlalchemy_rows"},
    "sse_starlette": {"jqmaster.api"},
    "starlette": {"jqmaster.agents.server", "jqmaster.api"},
    "structlog": {"jqmaster.cli.console.logs", "worker_sdk.middleware.logs"},
    "typer": {"jqmaster.cli"},
    "uuid_utils": {"jqmaster.domain.ids"},
    "uvicorn": {"jqmaster.api", "worker_sdk.transport"},
    "uvloop": {"jqmaster.cli", "worker_sdk.worker.worker"},
    "yaml": {"jqmaster.spec.openapi"},
}


def imported(tree: ast.AST, module: str) -> Iterator[str]:
    """Return dotted names of a module's imports, including those inside functions and those by `import_module`."""
    package = module.rsplit(".", 1)[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (given.value for given in node.args if isinstance(given, ast.Constant))
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join(
                    [*package.split(".")[: len(package.split(".")) - node.level + 1], *filter(None, [base])]
                )
            # `from jqmaster import app` imports a module, and `from jqmaster.app import serve` a name from one.
            yield from (f"{base}.{alias.name}" for alias in node.names)


@functools.cache
def read(source: str, module: str) -> tuple[Sequence[str], Sequence[int]]:
    """Return a module's imports, and the lines in which it reads the clock."""
    tree = ast.parse(source)
    return list(imported(tree, module)), list(clock_reads(tree))


def faults_of(source: str, module: str) -> list[str]:
    """Return the faults in the imports of `module` (such as `jqmaster.store.jobs.claims`)."""
    names, clock_lines = read(source, module)
    top, _, rest = module.partition(".")
    part = rest.split(".")[0] if rest else "__init__"
    faults = []
    for name in names:
        other, _, path = name.partition(".")
        if (top, other) == ("worker_sdk", "jqmaster"):
            faults.append(f"{module} imports {name}: the SDK is installed without the server")
        elif (top, other) == ("jqmaster", "worker_sdk") and not any(
            f"{path}.".startswith(f"{may}.") for may in OF_THE_SDK.get(part, {"transport"})
        ):
            faults.append(f"{module} imports {name}: the server knows worker_sdk.transport alone")
        elif top == other == "jqmaster":
            target = path.split(".")[0]
            # A name such as __version__, which is not a module, belongs to the package itself.
            if target in ALLOWED and target not in ALLOWED[part] | {part}:
                faults.append(f"{module} imports {name}: upwards")
        if top == "jqmaster":
            if other == "redis" and part not in KNOWS_REDIS:
                faults.append(f"{module} imports {name}: only {sorted(KNOWS_REDIS)} know Redis")
            if part == "domain" and any(name == bad or name.startswith(f"{bad}.") for bad in IMPURE):
                faults.append(f"{module} imports {name}: the domain is pure")
    if (top, part) == ("jqmaster", "domain"):
        faults += [f"{module} reads the clock in line {line}" for line in clock_lines]
    return faults


def place_of(module: str) -> tuple[str, str, str]:
    """Return a module's layer, room and file. The room is empty at the door of its layer."""
    parts = module.split(".")
    if parts[0] == "jqmaster":
        parts = parts[1:]
    parts = [part for part in parts if part != "__init__"]
    if len(parts) < 2:
        return (parts or [""])[0], "", ""
    return parts[0], ".".join(parts[1:-1]), parts[-1]


def room_faults_of(source: str, module: str, known: set[str]) -> list[str]:
    """Return a module's imports from rooms forbidden to its own room. `known` are all existing modules."""
    layer, room, _ = place_of(module)
    if layer not in ROOMS:
        return []
    faults = []
    for name in read(source, module)[0]:
        target = name if name in known else name.rpartition(".")[0]
        if target not in known or place_of(target)[0] != layer:
            continue
        _, other, file = place_of(target)
        if other != room and not {other, f"{other}.{file}"} & ROOMS[layer][room]:
            faults.append(
                f"{module} imports {name}: {room or layer} may not know {other or 'the door'}.{file}"
            )
    return faults


def clock_reads(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = (
                node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            )
            if (owner, node.attr) in CLOCK_READS:
                yield node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (node.lineno for alias in node.names if ("time", alias.name) in CLOCK_READS)


@functools.cache
def modules() -> list[tuple[str, Path]]:
    files = [
        file for package in ("jqmaster", "worker_sdk") for file in sorted((ROOT / package).rglob("*.py"))
    ]
    return [(".".join(file.relative_to(ROOT).with_suffix("").parts), file) for file in files]


@for_each(("module", "file"), [pytest.param(m, f, id=m) for m, f in modules()])
def test_imports_flow_down(module: str, file: Path) -> None:
    assert faults_of(file.read_text("utf-8"), module) == []


@pytest.mark.parametrize("layer", sorted(ROOMS))
def test_rooms_know_only_what_they_may(layer: str) -> None:
    known = {module for module, _ in modules()}
    own = [(module, file) for module, file in modules() if place_of(module)[0] == layer]
    assert {place_of(module)[1] for module, _ in own if not module.endswith("__init__")} <= set(ROOMS[layer])
    assert [
        fault for module, file in own for fault in room_faults_of(file.read_text("utf-8"), module, known)
    ] == []


@pytest.mark.parametrize("layer", sorted(ROOMS))
def test_every_permission_between_rooms_is_used(layer: str) -> None:
    known = {module for module, _ in modules()}
    used = set()
    for module, file in modules():
        if place_of(module)[0] == layer:
            for name in read(file.read_text("utf-8"), module)[0]:
                target = name if name in known else name.rpartition(".")[0]
                if target in known and place_of(target)[0] == layer:
                    _, other, name_of_file = place_of(target)
                    used |= {(place_of(module)[1], other), (place_of(module)[1], f"{other}.{name_of_file}")}
    assert {(room, may) for room, others in ROOMS[layer].items() for may in others} - used == set()


def test_a_room_that_may_not_know_another_is_found() -> None:
    known = {"jqmaster.store.jobs.claims", "jqmaster.store.identity.audit", "jqmaster.store.link.client"}
    source = "from jqmaster.store.identity.audit import encode_entry\nfrom jqmaster.store.link import client"
    assert room_faults_of(source, "jqmaster.store.jobs.claims", known) == [
        "jqmaster.store.jobs.claims imports jqmaster.store.identity.audit.encode_entry: jobs may not know "
        "identity.audit"
    ]


def test_no_modules_import_one_another_in_a_circle() -> None:
    files = dict(modules())

    def module_of(name: str) -> str:
        """Return an empty value for a module that is not ours."""
        while name and name not in files and f"{name}.__init__" not in files:
            name = name.rpartition(".")[0]
        return name if name in files or not name else f"{name}.__init__"

    TopologicalSorter(
        {
            module: {module_of(name) for name in read(file.read_text("utf-8"), module)[0]} - {""}
            for module, file in files.items()
        }
    ).prepare()  # raises CycleError, which names them


def test_every_package_has_its_place() -> None:
    packages = {module.split(".")[1] for module, _ in modules() if module.startswith("jqmaster.")}
    assert packages == set(ALLOWED), "a package has no place, or a place no package"
    assert set(ALLOWED) >= LEAVES


def test_every_layer_with_rooms_is_in_the_table_of_rooms_and_every_room_exists() -> None:
    rooms: dict[str, set[str]] = {}
    for module, _ in modules():
        if not module.endswith("__init__"):
            layer, room, _ = place_of(module)
            rooms.setdefault(layer, set()).add(room)
    assert {layer for layer, found in rooms.items() if found - {""}} == set(ROOMS)
    for layer, known in ROOMS.items():
        assert set(known) - {""} == rooms[layer] - {""}


def test_every_permission_between_packages_is_used() -> None:
    used = {
        (package_of(module), other) for module, file in modules() for other in imported_packages(module, file)
    }
    allowed = {(package, other) for package, others in ALLOWED.items() for other in others - LEAVES}
    assert allowed - used == set()
    leaves = {(package, leaf) for package in LEAVES for leaf in ALLOWED[package]}
    assert leaves - used == set()
    of_the_sdk = {
        (package_of(module), may)
        for module, file in modules()
        for name in read(file.read_text("utf-8"), module)[0]
        for may in OF_THE_SDK.get(package_of(module), ())
        if f"{name}.".startswith(f"worker_sdk.{may}.")
    }
    assert {(package, may) for package, rooms in OF_THE_SDK.items() for may in rooms} == of_the_sdk


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def imported_packages(module: str, file: Path) -> set[str]:
    """Return the packages of the server that a module of it imports."""
    names = read(file.read_text("utf-8"), module)[0] if module.startswith("jqmaster") else ()
    return {name.split(".")[1] for name in names if name.startswith("jqmaster.")}


def test_libraries_of_others_are_imported_only_where_they_may_be() -> None:
    ours = sys.stdlib_module_names | {"jqmaster", "worker_sdk"}
    used: dict[str, set[str]] = {}
    for module, file in modules():
        for name in read(file.read_text("utf-8"), module)[0]:
            library = name.split(".")[0]
            if library not in ours:
                # The most exact place that the table has for it.
                places = [one for one in LIBRARIES.get(library, ()) if f"{module}.".startswith(f"{one}.")]
                used.setdefault(library, set()).add(max(places, key=len, default=module))
    assert used == LIBRARIES, "LIBRARIES names the places of each library"


def test_no_package_may_import_one_that_may_import_it() -> None:
    for lower, may in ALLOWED.items():
        assert not [upper for upper in may if lower in ALLOWED[upper]]


@for_each(
    ("module", "source"),
    [
        ("jqmaster.store.jobs.claims", "from jqmaster.service.jobs.reader import JobReader"),
        ("jqmaster.store.jobs.claims", "def f():\n    import jqmaster.api.routes"),
        ("jqmaster.store.jobs.claims", "importlib.import_module('jqmaster.api.routes')"),
        ("jqmaster.service.jobs.reader", "from jqmaster import app"),
        ("jqmaster.service.jobs.reader", "from ...runtime.leadership import leader"),
        ("jqmaster.api.jobs.handlers", "from jqmaster.runtime import leader"),
        ("jqmaster.api.jobs.handlers", "import redis.asyncio"),
        ("jqmaster.domain.jobs.job", "import asyncio"),
        ("jqmaster.domain.jobs.job", "from http import client"),
        ("jqmaster.domain.jobs.job", "import time\nnow = time.time()"),
        ("jqmaster.domain.jobs.job", "from time import time"),
        ("jqmaster.domain.jobs.job", "import datetime\nnow = datetime.datetime.now()"),
        ("jqmaster.domain.jobs.job", "from jqmaster.store import keys"),
        ("jqmaster.cli.commands.worker", "from worker_sdk import Worker"),
        ("jqmaster.app.serving", "from worker_sdk.command_line import supervisor"),
        ("worker_sdk.worker.worker", "import jqmaster.errors"),
        ("jqmaster.errors", "from jqmaster.config import Settings"),
    ],
)  # fmt: skip
def test_the_rule_finds_a_bad_import(module: str, source: str) -> None:
    assert faults_of(source, module) != []


def test_the_rule_lets_good_imports_pass() -> None:
    source = (
        "import re\nfrom worker_sdk.transport import tls\nfrom jqmaster.domain.jobs.job import Job\n"
        "from jqmaster.errors import NotFoundError\nfrom . import keys"
    )
    assert faults_of(source, "jqmaster.store.jobs.claims") == []
