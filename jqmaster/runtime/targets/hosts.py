"""The hosts to which the requests of a target go. This module knows the requests under way at each host, and the hosts
that cannot be reached."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.workers.breaker import Breaker, BreakerPolicy
from jqmaster.live_value import LiveValue

# Maximum number of hosts for which failures are remembered.
MAX_BREAKERS: Final = 10_000


class TargetHosts:
    """Hosts by origin (scheme, host and port) of one target at one master. A host without failures has no breaker."""

    def __init__(self, policy: LiveValue[BreakerPolicy], clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._breakers: dict[str, Breaker] = {}
        self._calls: Counter[str] = Counter()

    def forget_failures(self) -> None:
        """Try all hosts again, because the target was changed."""
        self._breakers.clear()

    def breaker(self, origin: str) -> Breaker | None:
        """Return the breaker of a host, or None if it has not failed."""
        return self._breakers.get(origin)

    def why_unreachable(self) -> str:
        """Return why a host cannot be reached. Empty: all hosts can be reached."""
        now_s = self._clock.monotonic_s()
        return next((one.why for one in self._breakers.values() if one.state(now_s) != "closed"), "")

    def calls(self, origin: str) -> int:
        """Return the number of requests under way at a host."""
        return self._calls[origin]

    @contextlib.contextmanager
    def calling(self, origin: str) -> Iterator[None]:
        """Count a request while it is under way."""
        breaker = self._breakers.get(origin)
        if breaker is not None:
            breaker.begin_call()
        self._calls[origin] += 1
        try:
            yield
        except BaseException:
            if breaker is not None:
                breaker.is_probing = False
            raise
        finally:
            self._calls[origin] -= 1
            if not self._calls[origin]:
                del self._calls[origin]

    def failed(self, origin: str, why: str) -> None:
        """Note that nothing could be sent to a host."""
        breaker = self._breakers.get(origin)
        if breaker is None:
            if len(self._breakers) >= MAX_BREAKERS:
                self._breakers.pop(next(iter(self._breakers)))
            breaker = self._breakers[origin] = Breaker(policy=lambda: self._policy.current)
        breaker.failed(self._clock.monotonic_s(), why)

    def reached(self, origin: str) -> None:
        """Note that a request reached a host."""
        self._breakers.pop(origin, None)
