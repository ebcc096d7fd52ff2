"""KEDA in miniature: ScaledObjects and ScaledJobs with the trigger `metrics-api`, by the formulas of KEDA and of the
autoscaler that it creates."""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import Final

import aiohttp

from tests.chart.cluster import Cluster, replicas_of
from tests.chart.kubelet import Spec

# The autoscaler does nothing while the ratio is within this of 1.
_TOLERANCE: Final = 0.1


class Keda:
    """Scales by the answers of the masters. All times of the objects are divided by `pace`."""

    def __init__(self, cluster: Cluster, *, pace: float) -> None:
        self._cluster, self._pace = cluster, pace
        # The demands that were seen, and the pods wanted for each: (name, demand, pods).
        self.history: list[tuple[str, float, int]] = []
        # A Deployment without a number starts with one pod until KEDA has looked.
        for one in cluster.of_kind("ScaledObject").values():
            target = one["spec"]["scaleTargetRef"]
            cluster.objects[target["kind"], target["name"]]["spec"]["replicas"] = one["spec"][
                "minReplicaCount"
            ]

    async def run(self) -> None:
        """Scale until cancelled."""
        async with aiohttp.ClientSession() as http, asyncio.TaskGroup() as loops:
            for name, one in self._cluster.of_kind("ScaledObject").items():
                loops.create_task(self._loop(http, name, one["spec"], _Replicas(self._cluster, one["spec"])))
            for name, one in self._cluster.of_kind("ScaledJob").items():
                loops.create_task(
                    self._loop(http, name, one["spec"], _Jobs(self._cluster, name, one["spec"]))
                )

    async def _loop(
        self, http: aiohttp.ClientSession, name: str, spec: Spec, scaler: "_Replicas | _Jobs"
    ) -> None:
        [trigger] = spec["triggers"]
        assert trigger["type"] == "metrics-api"
        target = float(trigger["metadata"]["targetValue"])
        loop = asyncio.get_running_loop()
        while True:
            value = await self._value(http, trigger)
            pods = scaler.scale(value, target, loop.time() * self._pace)
            self.history.append((name, value, pods))
            await asyncio.sleep(spec["pollingInterval"] / self._pace)

    async def _value(self, http: aiohttp.ClientSession, trigger: Spec) -> float:
        about = trigger["metadata"]
        scheme, rest = about["url"].split("://")
        host, _, path = rest.partition("/")
        address = self._cluster.address_of(host.partition(":")[0])
        secrets = self._cluster.of_kind("TriggerAuthentication")[trigger["authenticationRef"]["name"]]
        given = {
            one["parameter"]: self._cluster.data_of("Secret", one["name"])[one["key"]]
            for one in secrets["spec"]["secretTargetRef"]
        }
        assert "bearer" in about["authMode"]
        url = f"{scheme}://{address}:{host.partition(':')[2]}/{path}"
        headers = {"Authorization": f"Bearer {given['token']}"}
        async with http.get(url, headers=headers) as answer:
            answer.raise_for_status()
            return float((await answer.json())[about["valueLocation"]])


class _Replicas:
    """From and to zero by the operator; between one and many by the autoscaler."""

    def __init__(self, cluster: Cluster, spec: Spec) -> None:
        self._spec, target = spec, spec["scaleTargetRef"]
        self._workload = cluster.objects[target["kind"], target["name"]]["spec"]
        self._active_s = -math.inf
        self._wanted: deque[tuple[float, int]] = deque()
        self._changes: deque[tuple[float, int]] = deque()

    def scale(self, value: float, target: float, now_s: float) -> int:
        spec, workload = self._spec, self._workload
        least, current = spec["minReplicaCount"], replicas_of({"spec": workload})
        if value > 0:
            self._active_s = now_s
        if current == 0:
            workload["replicas"] = max(1, least) if value > 0 else least
        elif value <= 0 and least == 0 and now_s - self._active_s >= spec["cooldownPeriod"]:
            workload["replicas"] = 0
            self._wanted.clear()
        else:
            workload["replicas"] = self._autoscaled(current, value, target, now_s)
        return replicas_of({"spec": workload})

    def _autoscaled(self, current: int, value: float, target: float, now_s: float) -> int:
        spec = self._spec
        ratio = value / (target * current)
        wanted = current if abs(ratio - 1) <= _TOLERANCE else math.ceil(value / target)
        wanted = min(max(wanted, 1, spec["minReplicaCount"]), spec["maxReplicaCount"])
        down = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
        self._wanted.append((now_s, wanted))
        while self._wanted[0][0] < now_s - down["stabilizationWindowSeconds"]:
            self._wanted.popleft()
        # It follows the highest of the window on the way down, and removes at most this many pods in a period.
        wanted = max(wanted, min(current, max(count for _, count in self._wanted)))
        if wanted < current:
            wanted = max(wanted, min(self._floor(policy, current, now_s) for policy in down["policies"]))
            self._changes.append((now_s, current - wanted))
        return wanted

    def _floor(self, policy: Spec, current: int, now_s: float) -> int:
        gone = sum(count for at_s, count in self._changes if at_s > now_s - policy["periodSeconds"])
        before = current + gone
        rounded: dict[str, Callable[[int], int]] = {
            "Percent": lambda value: math.floor(before * (1 - value / 100)),
            "Pods": lambda value: before - value,
        }
        return min(current, rounded[policy["type"]](policy["value"]))


class _Jobs:
    """A pod for each unit of the value that no pod runs for yet: the strategy `default`."""

    def __init__(self, cluster: Cluster, name: str, spec: Spec) -> None:
        assert spec["scalingStrategy"]["strategy"] == "default"
        self._cluster, self._name, self._spec = cluster, name, spec

    def scale(self, value: float, target: float, now_s: float) -> int:
        del now_s
        running = len(self._cluster.owned(self._name))
        most = min(math.ceil(value / target), self._spec["maxReplicaCount"])
        for _ in range(max(0, most - running)):
            self._cluster.start_pod("", self._spec["jobTargetRef"]["template"], self._name)
        return len(self._cluster.owned(self._name))
