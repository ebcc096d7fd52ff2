"""jqmaster: a standalone job queue. Jobs come in over HTTP, are kept in Valkey or Redis, and are pushed to workers."""


def __getattr__(name: str) -> str:
    # `jqmaster healthcheck` imports nothing that it does not need, and it needs no version.
    if name == "__version__":
        from worker_sdk.transport.release import VERSION

        return VERSION
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
