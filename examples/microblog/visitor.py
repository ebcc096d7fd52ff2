"""A visitor of the site that acts like a browser, with a cookie and the token of forms."""

import re
import time
from typing import Any, Final

import httpx

_TOKEN: Final = re.compile(r'name="csrfmiddlewaretoken" value="(\w+)"')
_PROGRESS: Final = re.compile(r'data-progress="(\S+)"')


class Visitor:
    """Reads a feed and posts as one account. Use it in a `with` block."""

    def __init__(self, url: str, name: str) -> None:
        self._client = httpx.Client(base_url=url, trust_env=False, timeout=60)
        self._name = name

    def __enter__(self) -> "Visitor":
        self._token = _TOKEN.findall(self.feed())[0]
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def feed(self) -> str:
        """Return the page with the feed."""
        answer = self._client.get(f"/{self._name}")
        answer.raise_for_status()
        return answer.text

    def post(self, text: str) -> float:
        """Post a text, and return the time of the request in seconds."""
        return self._send(f"/{self._name}", text=text)

    def delete(self, post_id: int) -> float:
        """Delete a post, and return the time of the request in seconds."""
        return self._send(f"/posts/{post_id}/delete")

    def progress(self) -> dict[str, Any]:
        """Return the progress of the newest own post in the feed."""
        answer = self._client.get(_PROGRESS.findall(self.feed())[0])
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def _send(self, path: str, **fields: str) -> float:
        began_s = time.perf_counter()
        answer = self._client.post(path, data={"csrfmiddlewaretoken": self._token, **fields})
        took_s = time.perf_counter() - began_s
        if answer.status_code != httpx.codes.FOUND:
            raise SystemExit(f"{path} answered {answer.status_code}:\n{answer.text[:1000]}")
        return took_s
