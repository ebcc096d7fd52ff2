"""The part of `celery.utils` that tasks use."""

import uuid as _uuid


def uuid() -> str:
    """Return a new random ID."""
    return str(_uuid.uuid4())
