from importlib.util import find_spec

# The environment may be older than the requirement of these packages for tests.
collect_ignore = [
    file
    for file, package in {"test_sentry.py": "sentry_sdk", "test_databases.py": "sqlalchemy"}.items()
    if find_spec(package) is None
]
