"""Refusals that a caller can fix: a missing or wrong token, or an address that is not a master's."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from worker_sdk.masters.masters import MasterAnswer

TOKEN_ADVICE: Final = "set JQMASTER_TOKEN or token="  # noqa: S105 - the name of a variable


def problem_of(answer: MasterAnswer, address: str) -> Mapping[str, Any]:
    """Return the problem of a refusal, with advice in its `detail`. `address`: the address of the master."""
    detail = str(answer.body.get("detail") or answer.body.get("title") or "")
    if answer.status == 401:
        return {**answer.body, "detail": f"{detail}; {TOKEN_ADVICE}" if detail else TOKEN_ADVICE}
    # Show the master's own text. But if the address has a path and the master has no such route, say that the path is a
    # mistake.
    has_path = urlsplit(address).path not in ("", "/")
    if answer.status == 404 and (not answer.code or (has_path and answer.code == "not_found")):
        return {**answer.body, "detail": f"no jqmaster at {address}; give http://host:port"}
    return answer.body
