"""The API of a master as one caller sees it, in the same process or over the network."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from worker_sdk.transport import standard_streams


class CallRefusedError(Exception):
    """A call that the master refused or did not answer. `text` is for the agent. `status` is 0 if there was no
    answer."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.text = text


class MasterCalls:
    """Calls the API with the credential of `http`. Raises CallRefusedError."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        return await self.call("GET", path, query=query)

    async def post(self, path: str, body: Any = None) -> Any:
        return await self.call("POST", path, body=body)

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return the decoded answer, or None if the answer has no body. Query parameters with the value None are
        left out."""
        try:
            response = await self._http.request(
                method,
                path,
                json=body,
                params={name: value for name, value in (query or {}).items() if value is not None},
                headers={"Accept": "application/json", **(headers or {})},
            )
        except httpx.TransportError as error:
            text = f"the master does not answer: {error or type(error).__name__}"
            raise CallRefusedError(0, "unreachable", text) from None
        try:
            answer = response.json() if response.content else None
        except ValueError:
            raise CallRefusedError(
                response.status_code, "", "the answer is not JSON; check that the address is that of a master"
            ) from None
        if response.status_code >= 400:
            raise _refusal(response, answer)
        return answer


def _refusal(response: httpx.Response, answer: Any) -> CallRefusedError:
    problem = answer if isinstance(answer, dict) else {}
    code = str(problem.get("code", ""))
    text = str(problem.get("detail") or problem.get("title") or f"the master answered {response.status_code}")
    rules = [
        f"{'.'.join(map(str, rule.get('loc', [])))}: {rule.get('msg')}"
        for rule in problem.get("errors") or []
    ]
    text = "; ".join([text, *(rule for rule in rules if rule not in text)])
    if wait_s := response.headers.get("retry-after"):
        text += f" (try again in {wait_s} s)"
    return CallRefusedError(response.status_code, code, standard_streams.escape_controls(text)[:1_000])


def part(text: str) -> str:
    """Return untrusted text, escaped, as one segment of a path."""
    return quote(text, safe="")
