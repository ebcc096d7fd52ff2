"""Imports flow one way, and what is pure stays pure."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Who may import whom: a package may import itself and those of its set. Leaves may be imported by all.
LEAVES = {
    "errors",
    "clock",
    "config",
    "descriptors",
    "lifecycle",
    "store_url",
    "tls",
    "tracing",
    "log_context",
}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "conformance": set(),
    "log_context": set(),
    "clock": set(),
    "descriptors": set(),
    "config": {"store_url"},
    "store_url": set(),
    "tracing": {"config", "errors"},
    "lifecycle": {"clock", "errors"},
    "tls": set(),
    "egress": LEAVES,
    "domain": {"errors"},
    "store": LEAVES | {"domain"},
    "embedded": LEAVES,
    "service": LEAVES | {"domain", "store", "egress"},
    "runtime": LEAVES | {"domain", "store", "service", "egress"},
    "api": LEAVES | {"domain", "store", "service", "egress"},
    "app": LEAVES | {"domain", "store", "service", "runtime", "api", "egress", "embedded"},
    "cli": LEAVES
    | {"domain", "store", "service", "runtime", "api", "egress", "embedded", "app", "conformance"},
    "__init__": set(),
    "__main__": {"cli"},
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


def imported(tree: ast.AST, module: str) -> Iterator[str]:
    """Dotted names of everything that a module imports, also inside functions."""
    package = module.rsplit(".", 1)[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join(
                    [*package.split(".")[: len(package.split(".")) - node.level + 1], *filter(None, [base])]
                )
            # `from jqmaster import app` imports a module, `from jqmaster.app import serve` a name of one.
            yield from (f"{base}.{alias.name}" for alias in node.names)


def faults_of(source: str, module: str) -> list[str]:
    """What is wrong with the imports of `module` (such as `jqmaster.store.claims`)."""
    tree = ast.parse(source)
    top, _, rest = module.partition(".")
    part = rest.split(".")[0] if rest else "__init__"
    faults = []
    for name in imported(tree, module):
        other, _, path = name.partition(".")
        if {top, other} == {"jqmaster", "worker_sdk"}:
            faults.append(f"{module} imports {name}: the packages share the OpenAPI documents only")
        elif top == other == "jqmaster":
            target = path.split(".")[0]
            # A name that is no module of ours, such as __version__, is of the package itself.
            if target in ALLOWED and target not in ALLOWED[part] | {part}:
                faults.append(f"{module} imports {name}: upwards")
        if top == "jqmaster":
            if other == "redis" and part not in KNOWS_REDIS:
                faults.append(f"{module} imports {name}: only {sorted(KNOWS_REDIS)} know Redis")
            if part == "domain" and any(name == bad or name.startswith(f"{bad}.") for bad in IMPURE):
                faults.append(f"{module} imports {name}: the domain is pure")
    if (top, part) == ("jqmaster", "domain"):
        faults += [f"{module} reads the clock in line {line}" for line in clock_reads(tree)]
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


def modules() -> list[tuple[str, Path]]:
    files = [
        file for package in ("jqmaster", "worker_sdk") for file in sorted((ROOT / package).rglob("*.py"))
    ]
    return [(".".join(file.relative_to(ROOT).with_suffix("").parts), file) for file in files]


@pytest.mark.parametrize(("module", "file"), [pytest.param(m, f, id=m) for m, f in modules()])
def test_imports_flow_down(module: str, file: Path) -> None:
    assert faults_of(file.read_text("utf-8"), module) == []


def test_no_modules_import_one_another_in_a_circle() -> None:
    files = dict(modules())

    def module_of(name: str) -> str:
        """Empty where it is none of ours."""
        while name and name not in files and f"{name}.__init__" not in files:
            name = name.rpartition(".")[0]
        return name if name in files or not name else f"{name}.__init__"

    TopologicalSorter(
        {
            module: {module_of(name) for name in imported(ast.parse(file.read_text("utf-8")), module)} - {""}
            for module, file in files.items()
        }
    ).prepare()  # raises CycleError, which names them


def test_every_package_has_its_place() -> None:
    assert {module.split(".")[1] for module, _ in modules() if module.startswith("jqmaster.")} <= set(ALLOWED)


def test_no_package_may_import_one_that_may_import_it() -> None:
    for lower, may in ALLOWED.items():
        assert not [upper for upper in may if lower in ALLOWED[upper]]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("jqmaster.store.claims", "from jqmaster.service.jobs import JobService"),
        ("jqmaster.store.claims", "def f():\n    import jqmaster.api.routes"),
        ("jqmaster.service.jobs", "from jqmaster import app"),
        ("jqmaster.service.jobs", "from ..runtime import leader"),
        ("jqmaster.api.jobs", "from jqmaster.runtime import leader"),
        ("jqmaster.api.jobs", "import redis.asyncio"),
        ("jqmaster.domain.job", "import asyncio"),
        ("jqmaster.domain.job", "from http import client"),
        ("jqmaster.domain.job", "import time\nnow = time.time()"),
        ("jqmaster.domain.job", "from time import time"),
        ("jqmaster.domain.job", "import datetime\nnow = datetime.datetime.now()"),
        ("jqmaster.domain.job", "from jqmaster.store import keys"),
        ("jqmaster.cli.worker", "from worker_sdk import Worker"),
        ("worker_sdk.worker", "import jqmaster.errors"),
        ("jqmaster.errors", "from jqmaster.config import Settings"),
    ],
)  # fmt: skip
def test_the_rule_finds_a_bad_import(module: str, source: str) -> None:
    assert faults_of(source, module) != []


def test_the_rule_lets_good_imports_pass() -> None:
    source = "import re\nfrom jqmaster.domain.job import Job\nfrom jqmaster.errors import NotFoundError\nfrom . import keys"
    assert faults_of(source, "jqmaster.store.claims") == []
