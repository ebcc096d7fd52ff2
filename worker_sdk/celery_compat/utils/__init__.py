"""`celery.utils`, as far as tasks use it."""

import uuid as _uuid


def uuid() -> str:
    """Return a new random ID."""
    return str(_uuid.uuid4())
