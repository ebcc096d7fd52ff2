"""The addresses of masters, and the choice of the master for the next call."""

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from worker_sdk import forked
from worker_sdk.masters.store_affinity import HEADER, StoreAffinity
from worker_sdk.transport.namespaces import split_checked
from worker_sdk.wire import CONTENT_TYPE, DecodeError, decode_jobs

MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
# Longer waits that a Retry-After asks for are cut to this.
MAX_RETRY_AFTER_S: Final = 60.0
# For how long a master that did not answer is tried last, because each call to it costs a whole timeout.
_AVOIDED_S: Final = 5.0
# For how long a master that serves another store is tried last.
_AVOIDED_FOREIGN_S: Final = 60.0
# The header that names the job, for answers without the job in their body.
JOB_ID_FIELD: Final = "JQ-Job-Id"
# The header that lists the job names of a push that no worker has ever served.
UNSERVED_FIELD: Final = "JQ-Unserved-Names"


class MasterUnreachableError(Exception):
    """No answer came: the call may or may not have been carried out. `is_final`: the master's certificate cannot be
    verified, so the call was not carried out, and repeating it would not help."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class MasterAnswer:
    """An answer of a master.

    * `body`: the decoded map of the answer, or {} if the answer is not a map.
    * `job_id`: the job that a header names, if any.
    * `store`: the store that the master named, if any.
    * `unserved`: the names in a push that no worker has ever served, separated by commas.
    """

    status: int
    body: Mapping[str, Any]
    retry_after_s: float | None = None
    job_id: str | None = None
    store: str = ""
    unserved: str = ""

    @property
    def is_ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def code(self) -> str:
        return str(self.body.get("code") or "")

    @property
    def is_transient(self) -> bool:
        """Return whether repeating the call, or calling another master, may get a different answer."""
        if self.code == "archive_damaged":
            # The result came from the archive, so a repeated call would get the same answer.
            return False
        if self.code == "offer_under_way":
            # The call conflicts with an offer, which ends within moments. The job to replace then either runs or waits
            # again.
            return True
        return self.status in (408, 425, 429) or self.status >= 500 or 300 <= self.status < 400

    def ids(self, field: str) -> set[str]:
        """The IDs in a list of the answer. Empty: the answer has no such list."""
        found = self.body.get(field)
        return {one for one in found if isinstance(one, str)} if isinstance(found, list) else set()

    def __str__(self) -> str:
        return f"{self.status} {self.code} {self.body.get('detail') or ''}".strip()


class Masters:
    """Chooses among the addresses of masters, which have no trailing slash. The current address is used until it fails.
    Then the next address is used. `affinity`: the trusted store, shared by all clients of the same addresses."""

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        affinity: StoreAffinity | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        given = [addresses] if isinstance(addresses, str) else list(addresses)
        self._addresses = tuple(_checked(address) for address in given)
        if not self._addresses:
            raise ValueError("the address of a master is needed")
        self.affinity = affinity or StoreAffinity()
        self._turn = 0
        # The address to call next. Other threads change it, too, when a call fails.
        self.current = self._addresses[0]
        self._avoided_until_s = [0.0] * len(self._addresses)
        self._now_s = now_s
        self._answered: set[str] = set()
        # The lock is reentrant, because a signal handler may interrupt a call and make its own call.
        self._lock = threading.RLock()
        forked.renew_in_child(self)

    def renew(self) -> None:
        self._lock = threading.RLock()

    def __str__(self) -> str:
        return ", ".join(self._addresses)

    def __len__(self) -> int:
        return len(self._addresses)

    @property
    def in_turn(self) -> list[str]:
        """Return all addresses, starting with the current address."""
        turn = self._turn
        return [*self._addresses[turn:], *self._addresses[:turn]]

    def store_headers(self) -> dict[str, str]:
        """Return the headers that name the store in each call."""
        return {HEADER: self.affinity.store} if self.affinity.store else {}

    def verified(self, address: str, answer: MasterAnswer) -> MasterAnswer:
        """Return the answer if it can be trusted. Raise MasterUnreachableError if a master of another store gave it.
        The caller then tries another master, as after a 5xx."""
        self._answered.add(address)
        affinity = self.affinity
        if (affinity.foreign or answer.store != affinity.store) and not affinity.admits(
            address, answer.store, is_ok=answer.is_ok, addresses=self._addresses
        ):
            self.failed(address, avoided_s=_AVOIDED_FOREIGN_S)
            raise MasterUnreachableError(f"{address}: a master of another store")
        if answer.status >= 500:
            self.failed(address, has_answered=True)
        return answer

    def has_answered(self, address: str) -> bool:
        """Return whether this address has ever answered a call."""
        return address in self._answered

    def failed(
        self, address: str, *, was_silent: bool = False, has_answered: bool = False, avoided_s: float = 0.0
    ) -> None:
        """Record that the master at an address gave no answer or a 5xx. If several callers report this at once, the
        current address still changes only once.

        * `was_silent`: nothing came from the address, not even a refusal of the connection.
        * `has_answered`: the master answered.
        * `avoided_s`: seconds for which other addresses are tried first.
        """
        with self._lock:
            turn, now_s = self._turn, self._now_s()
            if self._addresses[turn] != address:
                return
            if was_silent or avoided_s:
                self._avoided_until_s[turn] = now_s + max(avoided_s, _AVOIDED_S)
            others = [(turn + step) % len(self._addresses) for step in range(1, len(self._addresses))]
            next_turn = next((n for n in others if self._avoided_until_s[n] <= now_s), None)
            if next_turn is None and not has_answered:
                # All other addresses are avoided, too. Try the address that has been avoided longest, because it may
                # answer again.
                next_turn = min(others, key=self._avoided_until_s.__getitem__, default=None)
            self._turn = turn if next_turn is None else next_turn
            self.current = self._addresses[self._turn]


def headers_for(token: str | None, durability: str | None = None) -> dict[str, str]:
    headers = {"Content-Type": CONTENT_TYPE, "Accept": CONTENT_TYPE}
    if durability:
        headers["JQ-Durability"] = durability
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return headers


def read_answer(
    status: int,
    content_type: str,
    retry_after: str | None,
    data: bytes,
    job_id: str | None = None,
    *,
    store: str = "",
    unserved: str = "",
) -> MasterAnswer:
    """Return the decoded answer. The body of an error that is not a MessagePack map counts as empty, because proxies
    answer in HTML."""
    body: Any = None
    if content_type.partition(";")[0].strip().lower() == CONTENT_TYPE:
        try:
            body = decode_jobs(data)
        except DecodeError as exc:
            if 200 <= status < 300:
                raise MasterUnreachableError(f"an answer that cannot be decoded: {exc}") from None
    elif 200 <= status < 300 and status != 204:
        # A server that answers with status 200, but not with MessagePack, is not a master.
        raise MasterUnreachableError("an answer that is not MessagePack")
    retry_after_s = None if retry_after is None else _seconds(retry_after)
    return MasterAnswer(
        status, body if isinstance(body, dict) else {}, retry_after_s, job_id, store, unserved
    )


def backoff_s(tries: int, *, base_s: float = 0.1, max_s: float = 5.0) -> float:
    """Return the seconds to wait before the next try, with full jitter: a random time up to a limit that doubles with
    each try. `tries` counts from 1."""
    # Use the module's own generator: Python reseeds it in a forked process, so sibling processes do not retry at the
    # same time.
    return random.uniform(0, min(max_s, base_s * 2 ** min(tries, 16)))  # noqa: S311 - guards nothing


def pause_s(tries: int, retry_after_s: float | None, *, max_s: float = 5.0) -> float:
    """Return the seconds until the next try: the time that the master asked for, plus a random time. The random time
    keeps callers from returning at the same moment."""
    return (retry_after_s or 0.0) + backoff_s(tries, max_s=max_s)


def _seconds(retry_after: str) -> float | None:
    # Ignore a Retry-After that is a date, because it would depend on this machine's clock.
    if not retry_after.strip().isdigit():
        return None
    return min(float(retry_after), MAX_RETRY_AFTER_S)


def _checked(address: str) -> str:
    parts = split_checked(address)
    if parts.query or parts.fragment or parts.username:
        raise ValueError(f"not the address of a master: {address!r} (like http://127.0.0.1:8080)")
    return address.rstrip("/")
