"""jqmaster: a standalone job queue. Jobs come in over HTTP, are kept in Valkey or Redis, and are pushed to workers."""

from typing import Final

__version__: Final = "0.2.0"
