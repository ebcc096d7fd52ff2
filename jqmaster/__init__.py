"""jqmaster: a standalone job queue. Jobs come in over HTTP, are kept in Valkey or Redis, and are pushed to workers."""

from typing import Final

from worker_sdk.transport.release import VERSION

__version__: Final = VERSION
