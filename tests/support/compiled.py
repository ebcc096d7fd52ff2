"""A pytest plugin: the processes of a run share the work of compiling the test modules.

pytest compiles each test module by itself, to explain its assertions, and keeps the result. In a new checkout, the
processes of pytest-xdist import the same modules at the same time, so each of them would compile all. With this plugin,
each first compiles its share.
"""

import sys
from pathlib import Path

import pytest
from _pytest.assertion.rewrite import PYC_TAIL, _rewrite_test, _write_pyc, assertstate_key, get_cache_dir


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    worker = getattr(session.config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode:
        return
    number, processes = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    roots = [Path(argument.partition("::")[0]) for argument in session.config.args]
    modules = sorted(path for root in roots for path in [*root.rglob("test_*.py"), root] if path.is_file())
    for path in modules[number::processes]:
        _compile(path, session.config)


def _compile(path: Path, config: pytest.Config) -> None:
    """Compile a module if that was never done. pytest itself notices one that has changed."""
    kept = get_cache_dir(path) / (path.name.removesuffix(".py") + PYC_TAIL)
    if kept.exists():
        return
    try:
        digest, code = _rewrite_test(path, config)
        kept.parent.mkdir(exist_ok=True, parents=True)
    except (SyntaxError, OSError):
        # pytest says so when it collects the module.
        return
    _write_pyc(config.stash[assertstate_key], code, digest, kept)
