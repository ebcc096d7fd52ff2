from importlib.util import find_spec

# An environment that was made before these packages were test requirements.
collect_ignore = [
    file
    for file, package in {"test_sentry.py": "sentry_sdk", "test_databases.py": "sqlalchemy"}.items()
    if find_spec(package) is None
]
