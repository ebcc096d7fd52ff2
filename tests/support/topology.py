"""Stores of several servers on this machine: a primary with replicas and Sentinels, and a Cluster."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import redis

from tests.support.ports import free_port
from tests.support.server import ServerProcess, StoreServer

SERVICE = "jq"
SLOTS = 16384


class StoreNode(StoreServer):
    """A server that also listens on a port."""

    def __init__(self, *extra: str) -> None:
        self.port = free_port()
        # The port by which replicas, Sentinels and their clients know it.
        self.known_port = self.port
        super().__init__("--port", str(self.port), "--bind", "127.0.0.1", *extra)

    def be_known_at(self, port: int) -> None:
        """Announce another port, as behind a proxy. Call it before the start."""
        self.known_port = port
        self._extra += ("--replica-announce-ip", "127.0.0.1", "--replica-announce-port", str(port))

    def follow(self, primary: "StoreNode") -> None:
        """Follow this primary. Call it before the start."""
        self._extra += ("--replicaof", f"127.0.0.1 {primary.known_port}")

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def ask(self, *command: object) -> Any:
        return ask(self.port, *command)

    @property
    def is_primary(self) -> bool:
        """Return whether it is the primary. It is False when unreachable."""
        try:
            return bool(self.ask("ROLE")[0] == b"master")
        except (redis.RedisError, OSError):
            return False


class SentinelServer(ServerProcess):
    def __init__(self, primary: StoreNode, down_after_ms: int, *, quorum: int = 2) -> None:
        super().__init__()
        self.port = free_port()
        self.config: Path = self.directory / "sentinel.conf"
        self.config.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self.directory}\nlogfile {self.directory / 'log'}\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {primary.known_port} {quorum}\n"
            f"sentinel down-after-milliseconds {SERVICE} {down_after_ms}\n"
            f"sentinel failover-timeout {SERVICE} 6000\n"
            f"sentinel parallel-syncs {SERVICE} 2\n"
        )

    def _arguments(self) -> list[str]:
        return [str(self.config), "--sentinel"]

    def _connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=1)


class Sentinels:
    """A primary, its replicas, and three Sentinels that know them and each other."""

    def __init__(
        self, *, replicas: int = 1, down_after_ms: int = 1000, nodes: Sequence[StoreNode] = ()
    ) -> None:
        """Use `nodes` instead of new ones, with the primary first."""
        self.nodes = list(nodes) or [StoreNode() for _ in range(1 + replicas)]
        primary, *others = self.nodes
        for node in others:
            node.follow(primary)
        self.sentinels = [SentinelServer(primary, down_after_ms) for _ in range(3)]
        self.url = self.url_at(one.port for one in self.sentinels)

    @staticmethod
    def url_at(ports: Iterable[int]) -> str:
        """Return the URL for clients that know the Sentinels at these ports."""
        return f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in ports)}/{SERVICE}"

    @property
    def primary(self) -> StoreNode:
        """Return the primary known to the Sentinels."""
        port = _primary_port(self.sentinels[0])
        return next(node for node in self.nodes if node.known_port == port)

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        # Sentinels look for replicas at once, and then again only ten seconds later.
        self.wait_until_in_sync()
        for sentinel in self.sentinels:
            sentinel.start()

        def know_all() -> bool:
            states = [ask(one.port, "SENTINEL MASTER", SERVICE) for one in self.sentinels]
            return all(
                (state["num-other-sentinels"], state["num-slaves"]) == (2, len(self.nodes) - 1)
                for state in states
            )

        wait_for(know_all, "the Sentinels know all")

    def heal(self) -> None:
        """Restore one primary that all Sentinels know, with all others as its replicas. After a failover, Sentinels
        take ten seconds to make the former primary a replica."""
        primary = self.primary
        for node in self.nodes:
            if node is not primary:
                node.ask("REPLICAOF", "127.0.0.1", primary.known_port)
        self.wait_until_in_sync()
        self.wait_until_agreed()

    def wait_until_agreed(self) -> None:
        wait_for(
            lambda: len({_primary_port(one) for one in self.sentinels}) == 1,
            "the Sentinels agree",
        )

    def wait_until_in_sync(self) -> None:
        def follow() -> bool:
            found = [node.ask("INFO", "replication") for node in self.nodes]
            return sorted(one.get("master_link_status", "") for one in found) == [
                "",
                *["up"] * (len(found) - 1),
            ]

        wait_for(follow, "the replicas are in sync")

    def fail_over(self, *, is_coordinated: bool = False) -> None:
        """Fail over as planned by an operator. If coordinated, the primary hands over and becomes a replica at once.
        Otherwise it takes writes until the Sentinels make it one. Raise redis.ResponseError before Valkey 9, which
        lacks this."""
        ask(
            self.sentinels[0].port, "SENTINEL FAILOVER", SERVICE, *(["COORDINATED"] if is_coordinated else [])
        )

    def stop(self) -> None:
        for server in (*self.sentinels, *self.nodes):
            server.stop()


class Cluster:
    """Three primaries that share the slots, and replicas of the first."""

    def __init__(self, *, replicas: int = 0) -> None:
        self.nodes = [
            StoreNode(
                "--cluster-require-full-coverage",
                "no",
                "--cluster-enabled",
                "yes",
                "--cluster-port",
                str(free_port()),
                "--cluster-node-timeout",
                "1500",
            )
            for _ in range(3 + replicas)
        ]
        self.url = "redis+cluster://" + ",".join(node.endpoint for node in self.nodes)

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        first, *others = self.nodes
        for number, node in enumerate(self.nodes):
            node.ask("CLUSTER SET-CONFIG-EPOCH", number + 1)
            if number < 3:
                node.ask("CLUSTER ADDSLOTSRANGE", SLOTS * number // 3, SLOTS * (number + 1) // 3 - 1)
        for node in others:
            bus_port = int(node.ask("CONFIG GET", "cluster-port")["cluster-port"])
            first.ask("CLUSTER MEET", "127.0.0.1", node.port, bus_port)
        wait_for(lambda: all(self._knows_all(node) for node in self.nodes), "the nodes know each other")
        for node in self.nodes[3:]:
            node.ask("CLUSTER REPLICATE", self.id_of(first))
            wait_for(
                lambda node=node: node.ask("INFO", "replication").get("master_link_status") == "up",
                "the replica is in sync",
            )
        wait_for(lambda: all(self.is_ok(node) for node in self.nodes), "the cluster serves")

    def id_of(self, node: StoreNode) -> str:
        return _text(node.ask("CLUSTER MYID"))

    @property
    def primaries(self) -> list[StoreNode]:
        """Return the primaries, those without a replica first."""
        found = [node for node in self.nodes if node.is_primary]
        return sorted(found, key=lambda node: int(node.ask("INFO", "replication")["connected_slaves"]))

    @property
    def with_replica(self) -> tuple[StoreNode, StoreNode]:
        """Return a primary and its replica."""
        (replica,) = (node for node in self.nodes if not node.is_primary)
        return next(node for node in self.nodes if node.port == replica.ask("ROLE")[2]), replica

    def owner(self, slot: int) -> StoreNode:
        """Return the slot's owner as the nodes see it."""
        for node in self.nodes:
            with contextlib.suppress(redis.RedisError, OSError):
                for one in node.ask("CLUSTER NODES").values():
                    if "myself,master" in one["flags"] and any(
                        int(r[0]) <= slot <= int(r[-1]) for r in one["slots"]
                    ):
                        return node
        raise AssertionError(f"nobody has slot {slot}")

    def begin_move(self, slot: int, source: StoreNode, target: StoreNode) -> None:
        target.ask("CLUSTER SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.ask("CLUSTER SETSLOT", slot, "MIGRATING", self.id_of(target))

    def move_keys(self, slot: int, source: StoreNode, target: StoreNode, *, at_most: int) -> int:
        """Move the keys, and return how many moved."""
        keys = source.ask("CLUSTER GETKEYSINSLOT", slot, at_most)
        if keys:
            source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        return len(keys)

    def end_move(self, slot: int, source: StoreNode, target: StoreNode) -> None:
        for node in (target, source, *(node for node in self.nodes if node.is_primary)):
            node.ask("CLUSTER SETSLOT", slot, "NODE", self.id_of(target))

    def is_ok(self, node: StoreNode) -> bool:
        return bool(node.ask("CLUSTER INFO")["cluster_state"] == "ok")

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def _knows_all(self, node: StoreNode) -> bool:
        info = node.ask("CLUSTER INFO")
        return info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == len(self.nodes)


def _primary_port(sentinel: SentinelServer) -> int:
    return int(ask(sentinel.port, "SENTINEL GET-MASTER-ADDR-BY-NAME", SERVICE)[1])


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def ask(port: int, *command: object) -> Any:
    with redis.Redis(port=port, protocol=2, socket_timeout=5) as client:
        return client.execute_command(*command)


def wait_for(holds: Callable[[], bool], what: str, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)
