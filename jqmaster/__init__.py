"""jqmaster: a standalone job queue. Jobs come in over HTTP, are kept in Valkey or Redis, and are pushed to workers."""


def __getattr__(name: str) -> str:
    # Read the version only when it is asked for: `jqmaster healthcheck` needs none, and imports nothing that it does
    # not need.
    if name == "__version__":
        from worker_sdk.transport.release import VERSION

        return VERSION
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
