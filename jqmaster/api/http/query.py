"""Checks of query parameters."""

from jqmaster.api.schemas import instant_ms
from jqmaster.errors import FieldError, InvalidError


def whole_number(query: dict[str, str], name: str, *, default: int, least: int, most: int) -> int:
    """Return the query parameter `name` as an integer, or `default` where it is absent. Raises InvalidError."""
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        raise query_error(name, f"a whole number from {least} to {most}")
    return int(text)


def query_error(name: str, rule: str) -> InvalidError:
    """Return the error for the query parameter `name`, which breaks `rule`."""
    return InvalidError(f"{name} must be {rule}", errors=[FieldError(("query", name), f"must be {rule}")])


def instant(query: dict[str, str], name: str) -> int | None:
    """Return the query parameter `name` in Unix milliseconds, None where it is absent. Raises InvalidError."""
    text = query.get(name)
    if text is None:
        return None
    try:
        return instant_ms(text)
    except ValueError:
        raise query_error(
            name, "ISO 8601 with an offset, such as 2026-11-21T04:30:00Z, between 1970 and 2100"
        ) from None
