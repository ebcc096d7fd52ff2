"""Checks of query parameters."""

from jqmaster.errors import FieldError, InvalidError


def whole_number(query: dict[str, str], name: str, *, default: int, least: int, most: int) -> int:
    """Return the query parameter `name` as an integer, or `default` if it is absent. Raises InvalidError."""
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        raise query_error(name, f"a whole number from {least} to {most}")
    return int(text)


def query_error(name: str, rule: str) -> InvalidError:
    """Return the error for the query parameter `name`, which breaks `rule`."""
    return InvalidError(f"{name} must be {rule}", errors=[FieldError(("query", name), f"must be {rule}")])
