"""A cluster in miniature: it keeps the pods, Services and disruption budgets of rendered manifests."""

import asyncio
import contextlib
import hashlib
import json
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.chart.kubelet import Pod, Spec
from tests.chart.service_proxy import ServiceProxy
from tests.support.waiting import wait_until

_TICK_S: Final = 0.1
_MANY: Final = 250


class Cluster:
    """Two nodes with the objects of `manifests`. Use `running`.

    `network`: the first three numbers of all addresses. `names`: addresses of what is outside. `lag_s`: how long it
    takes until Services follow a change. `environment`: variables of the test for all pods.
    """

    def __init__(
        self,
        manifests: Iterable[Spec],
        directory: Path,
        *,
        network: str,
        namespace: str = "jobs",
        names: Mapping[str, str] | None = None,
        secrets: Mapping[str, Mapping[str, str]] | None = None,
        lag_s: float = 2.0,
        environment: Mapping[str, str] | None = None,
        tracer: Callable[[str], list[str]] = lambda _: [],
    ) -> None:
        self.objects: dict[tuple[str, str], Spec] = {}
        self.namespace, self.network = namespace, network
        self.pods: list[Pod] = []
        self.nodes = {"node-a": True, "node-b": True}  # may pods start there?
        self.ended: list[Pod] = []
        self._directory, self._lag_s, self._tracer = directory, lag_s, tracer
        self._names, self._environment = dict(names or {}), dict(environment or {})
        self._numbers = iter(range(1, _MANY))
        self._proxies: dict[str, ServiceProxy] = {}
        for name, data in (secrets or {}).items():
            self.apply({"kind": "Secret", "metadata": {"name": name}, "stringData": data})
        for one in manifests:
            self.apply(one)
        for name, service in self.of_kind("Service").items():
            if service["spec"].get("clusterIP") != "None":
                [port] = service["spec"]["ports"]
                self._proxies[name] = ServiceProxy(self.new_address(), port["port"], lag_s=lag_s)

    def new_address(self) -> str:
        """Return an address that nothing else has."""
        return f"{self.network}.{next(self._numbers)}"

    def of_kind(self, kind: str) -> dict[str, Spec]:
        """Return the objects of a kind by their names."""
        return {name: one for (its_kind, name), one in self.objects.items() if its_kind == kind}

    def apply(self, one: Spec) -> None:
        """Create or replace an object. Volumes of running pods follow."""
        self.objects[one["kind"], one["metadata"]["name"]] = one
        if one["kind"] in ("Secret", "ConfigMap"):
            for pod in self.pods:
                pod.write_volumes()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Cluster"]:
        """Run it. At the end, all pods are deleted, and none may have failed or been killed."""
        for proxy in self._proxies.values():
            await proxy.start()
        control = asyncio.create_task(self._control())
        try:
            yield self
        finally:
            control.cancel()
            await asyncio.wait([control])
            # Workers report their last results before the masters go.
            for is_served in (False, True):
                await asyncio.gather(
                    *(pod.delete() for pod in self.pods if self._is_served(pod) is is_served)
                )
            for proxy in self._proxies.values():
                await proxy.stop()
        if not control.cancelled():
            control.result()
        for pod in self.ended:
            await pod.wait()
            said = f"{pod.name}: {pod.log.read_text()[-2000:]}"
            assert (pod.restarts, pod.was_killed) == (0, False), said
            assert pod.exit_code == 0, said

    def _is_served(self, pod: Pod) -> bool:
        return any(
            service["spec"]["selector"].items() <= pod.labels.items()
            for name, service in self.of_kind("Service").items()
            if name in self._proxies
        )

    # --- what pods need

    def address_of(self, host: str) -> str | None:
        """See `Around`."""
        if host in self._names:
            return self._names[host]
        short = host.removesuffix(".cluster.local").removesuffix(".svc").removesuffix(f".{self.namespace}")
        if short in self._proxies:
            return self._proxies[short].address
        return next((pod.address for pod in self.pods if short == f"{pod.name}.{pod.owner}"), None)

    def data_of(self, kind: str, name: str) -> Mapping[str, str]:
        """See `Around`."""
        one = self.objects[kind, name]
        return one["stringData"] if kind == "Secret" else one["data"]

    def changed(self, pod: Pod) -> None:
        """See `Around`."""
        if pod.has_ended and pod in self.pods:
            self.pods.remove(pod)
            self.ended.append(pod)
        for name, proxy in self._proxies.items():
            service = self.objects["Service", name]["spec"]
            target = service["ports"][0]["targetPort"]
            proxy.tell([
                (one.address, one.port(target))
                for one in self.selected(service["selector"])
                if one.is_ready and not one.is_deleting
            ])  # fmt: skip

    def url_of(self, service: str) -> str:
        """Return the address of a Service, without a scheme."""
        return f"{self._proxies[service].address}:{self._proxies[service].port}"

    # --- pods

    def selected(self, labels: Mapping[str, str]) -> list[Pod]:
        """Return the pods that have these labels."""
        return [pod for pod in self.pods if labels.items() <= pod.labels.items()]

    def owned(self, owner: str) -> list[Pod]:
        """Return the pods of a workload."""
        return [pod for pod in self.pods if pod.owner == owner]

    def start_pod(self, name: str, template: Spec, owner: str) -> Pod:
        """Start a pod on the node that has the fewest of its kind."""
        address = self.new_address()
        labels = template["metadata"]["labels"]
        alike = [one.node for one in self.selected(labels)]
        node = min((name for name, is_open in self.nodes.items() if is_open), key=alike.count)
        pod = Pod(
            name or f"{owner}-{address.rpartition('.')[2]}",
            template,
            address=address,
            node=node,
            owner=owner,
            revision=_revision_of(template),
            around=self,
            directory=self._directory,
            environment=self._environment,
            tracer=self._tracer,
        )
        self.pods.append(pod)
        return pod

    async def settled(self, *, timeout_s: float = 150) -> None:
        """Wait until all workloads have their pods, of the newest template, ready, and Services know them."""

        def is_settled() -> bool:
            assert not any(pod.restarts for pod in self.pods), self
            return all(map(self._is_settled, self.workloads()))

        await wait_until(is_settled, timeout_s=timeout_s)
        await asyncio.sleep(self._lag_s + _TICK_S)

    def __repr__(self) -> str:
        return "\n".join(
            f"{pod.name} on {pod.node}: ready {pod.is_ready}, deleting {pod.is_deleting}, restarts {pod.restarts}: "
            f"{pod.log.read_text()[-300:] if pod.log.exists() else ''}"
            for pod in self.pods
        )

    # --- controllers

    def workloads(self) -> list[Spec]:
        """Return the Deployments and StatefulSets."""
        return [*self.of_kind("Deployment").values(), *self.of_kind("StatefulSet").values()]

    def _is_settled(self, workload: Spec) -> bool:
        pods = self.owned(workload["metadata"]["name"])
        revision = _revision_of(workload["spec"]["template"])
        return len(pods) == replicas_of(workload) and all(
            pod.is_ready and not pod.is_deleting and pod.revision == revision for pod in pods
        )

    async def _control(self) -> None:
        async with asyncio.TaskGroup() as deletions:
            while True:
                for one in self.workloads():
                    keep = self._keep_deployment if one["kind"] == "Deployment" else self._keep_stateful_set
                    for pod in keep(one):
                        deletions.create_task(pod.delete())
                await asyncio.sleep(_TICK_S)

    def _keep_deployment(self, deployment: Spec) -> Iterable[Pod]:
        """Start what is missing. Return the pods to delete: first those that are not ready, then those that serve."""
        name, wanted = deployment["metadata"]["name"], replicas_of(deployment)
        strategy = deployment["spec"]["strategy"]["rollingUpdate"]
        surge = _count(strategy["maxSurge"], wanted, math.ceil)
        unavailable = _count(strategy["maxUnavailable"], wanted, math.floor)
        template = deployment["spec"]["template"]
        pods = [pod for pod in self.owned(name) if not pod.is_deleting]
        new = [pod for pod in pods if pod.revision == _revision_of(template)]
        old = [pod for pod in pods if pod not in new]
        room = max(0, min(wanted - len(new), wanted + surge - len(pods)))
        for _ in range(room):
            self.start_pod("", template, name)
        spare = sum(pod.is_ready for pod in pods) - (wanted - unavailable)
        for pod in sorted(old, key=lambda pod: pod.is_ready):
            if not pod.is_ready or spare > 0:
                spare -= pod.is_ready
                yield pod
        yield from sorted(new, key=lambda pod: pod.is_ready)[: len(new) - wanted if len(new) > wanted else 0]

    def _keep_stateful_set(self, stateful_set: Spec) -> Iterable[Pod]:
        """Start the missing ordinals. Return the pod to delete: one at a time in an update, from the highest."""
        name, wanted = stateful_set["metadata"]["name"], replicas_of(stateful_set)
        template = stateful_set["spec"]["template"]
        pods = {pod.name: pod for pod in self.owned(name)}
        for ordinal in range(wanted):
            if f"{name}-{ordinal}" not in pods:
                self.start_pod(f"{name}-{ordinal}", template, name)
        kept = [f"{name}-{ordinal}" for ordinal in range(wanted)]
        yield from (pod for pod in pods.values() if pod.name not in kept and not pod.is_deleting)
        if len(pods) == wanted and all(pod.is_ready for pod in pods.values()):
            old = [one for one in kept if pods[one].revision != _revision_of(template)]
            yield from (pods[one] for one in old[-1:])

    def roll(self, workload: str, change: str) -> None:
        """Change the template of a workload, as a new version does."""
        [one] = [one for one in self.workloads() if one["metadata"]["name"] == workload]
        one["spec"]["template"]["metadata"].setdefault("annotations", {})["rolled"] = change

    async def drain(self, node: str) -> None:
        """Let no pod start there, and evict those that are there as fast as disruption budgets allow."""
        self.nodes[node] = False
        evictions = []
        while left := [pod for pod in self.pods if pod.node == node]:
            for pod in left:
                if not pod.is_deleting and self._may_evict(pod):
                    evictions.append(asyncio.create_task(pod.delete()))
                    await asyncio.sleep(0)  # it is unready before the next is judged
            await asyncio.sleep(_TICK_S)
        await asyncio.gather(*evictions)

    def _may_evict(self, pod: Pod) -> bool:
        for budget in self.of_kind("PodDisruptionBudget").values():
            labels = budget["spec"]["selector"]["matchLabels"]
            if not labels.items() <= pod.labels.items():
                continue
            if not pod.is_ready and budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
                continue
            [workload] = [one for one in self.workloads() if one["metadata"]["name"] == pod.owner]
            expected = replicas_of(workload)
            healthy = sum(one.is_ready for one in self.selected(labels))
            if healthy - 1 < expected - _count(budget["spec"]["maxUnavailable"], expected, math.ceil):
                return False
        return True


def replicas_of(workload: Spec) -> int:
    """Return how many pods are wanted; one where nothing says so."""
    found: int = workload["spec"].get("replicas", 1)
    return found


def _revision_of(template: Spec) -> str:
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]


def _count(given: int | str, whole: int, rounded: Callable[[float], int]) -> int:
    return given if isinstance(given, int) else rounded(whole * int(given.rstrip("%")) / 100)


def parsed(manifests: Iterable[Any]) -> list[Spec]:
    """Return the manifests without the hooks of Helm, which do not run here."""
    return [one for one in manifests if one and "helm.sh/hook" not in one["metadata"].get("annotations", {})]
