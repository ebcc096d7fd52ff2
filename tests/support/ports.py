"""Ports for servers under test that cannot be handed out to others between choosing and listening."""

import random
import socket
from typing import Final

# Use ports below those that Linux gives to outgoing connections and to binds of port 0 (ip_local_port_range: from
# 32768).
_RANGE: Final = range(15_000, 32_000)
# Do not use the generator seeded for the test order, because two workers of one run would choose the same ports.
_random: Final = random.SystemRandom()
_given: Final[set[int]] = set()


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens. It is never the same twice in one process."""
    for _ in range(1_000):
        port = _random.choice(_RANGE)
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise OSError("no free port found")
