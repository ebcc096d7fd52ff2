"""NetworkPolicies against the sockets that pods really opened: all of them are allowed, and no rule is in vain."""

import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.chart.cluster import Cluster
from tests.chart.kubelet import Pod, Spec

_CONNECT: Final = re.compile(r'sa_family=AF_INET, sin_port=htons\((\d+)\), sin_addr=inet_addr\("([\d.]+)"\)')
Rule = tuple[str, str, int, int]


@dataclass(frozen=True)
class Peer:
    """A pod of this namespace, or something elsewhere, by its labels. `names`: its ports by their names."""

    labels: Mapping[str, str]
    namespace: Mapping[str, str]
    ports: Mapping[str, int]
    address: str = ""


class Tracer:
    """Writes down the connections of pods, by `strace`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir()

    @staticmethod
    def is_there() -> bool:
        return shutil.which("strace") is not None

    def __call__(self, pod: str) -> list[str]:
        # The command stays a child of the test, and the tracer stops it at its connects alone.
        file = self._directory / f"{pod}.{len(list(self._directory.iterdir()))}"
        return ["strace", "-D", "-f", "-qq", "--seccomp-bpf", "-e", "trace=connect", "-e", "signal=none",
                "-o", str(file), "--"]  # fmt: skip

    def connections(self) -> set[tuple[str, str, int]]:
        """Return (pod, address, port) of all connections."""
        return {
            (file.name.rpartition(".")[0], address, int(port))
            for file in self._directory.iterdir()
            for port, address in _CONNECT.findall(file.read_text())
        }


class Policies:
    """The NetworkPolicies of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._policies = {name: one["spec"] for name, one in cluster.of_kind("NetworkPolicy").items()}
        self.own = {"kubernetes.io/metadata.name": cluster.namespace}
        self.used: set[Rule] = set()

    def pod(self, pod: Pod) -> Peer:
        ports = {one["name"]: one["containerPort"] for one in pod.container.get("ports", ())}
        return Peer(pod.labels, self.own, ports, pod.address)

    def refusals(self, source: Peer, target: Peer, port: int) -> list[str]:
        """Return the policies that refuse this connection. Take note of the rules that allow it."""
        return [
            f"{direction} of {dict(one.labels)} on port {port}"
            for direction, one, other in (("egress", source, target), ("ingress", target, source))
            if not self._allows(direction, one, other, port, target)
        ]

    def refused_connections(self, pods: Mapping[str, Pod], tracer: Tracer, cluster: Cluster) -> list[str]:
        """Return the policies that refuse the connections of these pods. Each name of the cluster was looked up."""
        store = Peer({"app.kubernetes.io/name": "valkey"}, self.own, {})
        dns = Peer({}, {"kubernetes.io/metadata.name": "kube-system"}, {})
        by_address = {pod.address: pod for pod in pods.values()}
        found = []
        for name, address, port in sorted(tracer.connections()):
            source = self.pod(pods[name])
            found += self.refusals(source, dns, 53)
            if address in (pods[name].address, "127.0.0.1"):
                continue  # itself, as its probes ask
            if address == cluster.address_of("store"):
                found += self.refusals(source, store, port)
            elif address in by_address:
                found += self.refusals(source, self.pod(by_address[address]), port)
            elif f"{address}:{port}" == cluster.url_of("jqmaster"):
                service = cluster.of_kind("Service")["jqmaster"]["spec"]
                for pod in cluster.selected(service["selector"]):
                    found += self.refusals(source, self.pod(pod), pod.port(service["ports"][0]["targetPort"]))
            else:
                found.append(f"{name} called {address}:{port}")
        return found

    def _allows(self, direction: str, one: Peer, other: Peer, port: int, target: Peer) -> bool:
        policies = {
            name: spec
            for name, spec in self._policies.items()
            if one.namespace == self.own
            and direction.capitalize() in spec["policyTypes"]
            and _selects(spec["podSelector"], one.labels)
        }
        found = [
            (name, direction, number, place)
            for name, spec in policies.items()
            for number, rule in enumerate(spec.get(direction, ()))
            for place, peer in enumerate(rule.get("from" if direction == "ingress" else "to", [{}]))
            if self._is_peer(peer, other) and _has_port(rule, port, target)
        ]
        self.used.update(found)
        return bool(found) or not policies

    def _is_peer(self, peer: Spec, other: Peer) -> bool:
        space = peer.get("namespaceSelector")
        if not peer:
            return True
        if space is None and other.namespace != self.own:
            return False
        return _selects(space or {}, other.namespace) and _selects(peer.get("podSelector", {}), other.labels)

    def unused(self) -> set[Rule]:
        """Return the rules that no connection has needed so far."""
        return {
            (name, direction, number, place)
            for name, spec in self._policies.items()
            for direction in ("ingress", "egress")
            for number, rule in enumerate(spec.get(direction, ()))
            for place, _ in enumerate(rule.get("from" if direction == "ingress" else "to", [{}]))
        } - self.used


def _has_port(rule: Spec, port: int, target: Peer) -> bool:
    ports: Iterable[Spec] = rule.get("ports", ())
    return not ports or any(target.ports.get(one["port"], one["port"]) == port for one in ports)


def _selects(selector: Spec, labels: Mapping[str, str]) -> bool:
    wanted: Mapping[str, str] = selector.get("matchLabels", {})
    return wanted.items() <= labels.items() and all(
        one["operator"] == "In" and labels.get(one["key"]) in one["values"]
        for one in selector.get("matchExpressions", ())
    )
