"""jqmaster: a standalone job queue. Jobs come in over HTTP, are kept in Valkey or Redis, and are pushed to workers."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("jqmaster")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"
