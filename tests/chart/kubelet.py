"""A kubelet in miniature: pods as processes of this machine, with their own arguments, variables, volumes, probes and
end.

Each pod has a loopback address of its own, so that all pods can listen on the ports of their manifests. There is no
network namespace and no file system of a container, which would need rights that not every machine gives. Instead, the
address 0.0.0.0 stands for the pod's own, names of Services for their addresses, and mount paths for folders of the
test. A pod's network policy and its security context have no effect here.
"""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import aiohttp

Spec: TypeAlias = dict[str, Any]

_HOST: Final = re.compile(r"(?<=[/@])[\w.-]+(?=:\d)")
# Kubernetes leaves a container at least this long after its preStop.
_MIN_GRACE_S: Final = 2.0


class Around(Protocol):
    """The part of a cluster that a pod asks for addresses and data."""

    namespace: str

    def address_of(self, host: str) -> str | None:
        """Return the address of a name, or None if the cluster does not know it."""

    def data_of(self, kind: str, name: str) -> Mapping[str, str]:
        """Return the entries of a Secret or ConfigMap."""

    def changed(self, pod: "Pod") -> None:
        """Take note of a pod that became ready or unready, or ended."""


class Pod:
    """One pod with one container. It starts at once, on the running loop."""

    def __init__(
        self,
        name: str,
        template: Spec,
        *,
        address: str,
        node: str,
        owner: str,
        revision: str,
        around: Around,
        directory: Path,
        environment: Mapping[str, str],
        tracer: Callable[[str], list[str]],
    ) -> None:
        self.name, self.address, self.node, self.owner, self.revision = name, address, node, owner, revision
        self.labels: dict[str, str] = template["metadata"]["labels"]
        self.spec: Spec = template["spec"]
        [self.container] = self.spec["containers"]
        self.is_ready = self.is_deleting = self.was_killed = False
        # Crashes that the test asked for do not count.
        self.restarts = 0
        self._is_crashing = False
        self.exit_code: int | None = None
        self._around, self._environment, self._tracer = around, environment, tracer
        self._root = directory / name
        self._volumes = {one["name"]: one for one in self.spec.get("volumes", ())}
        self._mounts = {
            one["mountPath"]: self._root / "mounts" / one["name"]
            for one in self.container.get("volumeMounts", ())
        }
        self._process: asyncio.subprocess.Process | None = None
        self._life = asyncio.create_task(self._live())

    @property
    def log(self) -> Path:
        return self._root / "log"

    @property
    def has_ended(self) -> bool:
        return self._life.done()

    def port(self, name: str | int) -> int:
        """Return the number of a port of the container."""
        if isinstance(name, int):
            return name
        return next(one["containerPort"] for one in self.container.get("ports", ()) if one["name"] == name)

    async def wait(self) -> None:
        """Wait for the end. Raise what ended the pod against its manifest."""
        await self._life

    # --- start

    async def _live(self) -> None:
        self.write_volumes()
        try:
            while not self.is_deleting:
                self._process = await self._start(self._command(self.container), self.log)
                probes = asyncio.create_task(self._probe_all())
                self.exit_code = await self._process.wait()
                probes.cancel()
                await asyncio.wait([probes])
                if not probes.cancelled() and (fault := probes.exception()):
                    raise fault
                # Processes that a container leaves behind end with it, as in a process namespace.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._set_ready(False)
                if self.is_deleting or self.spec.get("restartPolicy") == "Never":
                    return
                self.restarts += not self._is_crashing
                self._is_crashing = False
                await asyncio.sleep(1)
        finally:
            asyncio.get_running_loop().call_soon(self._around.changed, self)

    def _command(self, container: Spec) -> list[str]:
        return [*container["command"], *container.get("args", ())]

    async def _start(self, command: list[str], output: Path) -> asyncio.subprocess.Process:
        """Start a command in the container."""
        variables = self._variables()
        argv = [self._translated(_expanded(one, variables)) for one in command]
        self._root.mkdir(parents=True, exist_ok=True)
        (self._root / "app").mkdir(exist_ok=True)
        with output.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self._tracer(self.name),
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._root / "app",
                env={
                    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                    **{name: self._translated(value) for name, value in variables.items()},
                    **self._environment,
                },
                start_new_session=True,
            )

    def _variables(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for source in self.container.get("envFrom", ()):
            kind = "ConfigMap" if "configMapRef" in source else "Secret"
            found |= self._around.data_of(kind, source[f"{kind[0].lower()}{kind[1:]}Ref"]["name"])
        for one in self.container.get("env", ()):
            found[one["name"]] = (
                self._value_from(one["valueFrom"]) if "valueFrom" in one else _expanded(one["value"], found)
            )
        return found

    def _value_from(self, source: Spec) -> str:
        match source:
            case {"fieldRef": {"fieldPath": path}}:
                return {
                    "metadata.name": self.name,
                    "metadata.namespace": self._around.namespace,
                    "status.podIP": self.address,
                    "spec.nodeName": self.node,
                }[path]
            case {"secretKeyRef": ref}:
                return self._around.data_of("Secret", ref["name"])[ref["key"]]
            case {"configMapKeyRef": ref}:
                return self._around.data_of("ConfigMap", ref["name"])[ref["key"]]
        raise NotImplementedError(source)

    def _translated(self, text: str) -> str:
        """Return the text with the addresses and folders of this machine."""
        text = re.sub(r"(?<![\d.])0\.0\.0\.0(?![\d./])", self.address, text)
        text = _HOST.sub(lambda host: self._around.address_of(host[0]) or host[0], text)
        if not self._mounts:
            return text
        paths = "|".join(map(re.escape, sorted(self._mounts, reverse=True)))
        return re.sub(rf"(?<![\w./-])({paths})(?=[/\s\"']|$)", lambda path: str(self._mounts[path[1]]), text)

    # --- volumes

    def write_volumes(self) -> None:
        """Write Secrets and ConfigMaps as a kubelet does: the files are links into `..data`, a link that is replaced
        whole."""
        for folder in self._mounts.values():
            folder.mkdir(parents=True, exist_ok=True)
            volume = self._volumes[folder.name]
            if source := volume.get("secret"):
                self._project(folder, "Secret", source["secretName"], source.get("items"))
            elif source := volume.get("configMap"):
                self._project(folder, "ConfigMap", source["name"], source.get("items"))

    def _project(self, folder: Path, kind: str, name: str, items: list[Spec] | None) -> None:
        data = self._around.data_of(kind, name)
        paths = {one["path"]: one["key"] for one in items} if items else {key: key for key in data}
        content = {path: data[key] for path, key in paths.items()}
        if kind == "ConfigMap":
            content = {path: self._translated(text) for path, text in content.items()}
        former = folder / "..data"
        if former.exists() and {one.name: one.read_text() for one in former.iterdir()} == content:
            return
        version = folder / f"..{time.monotonic_ns()}"
        version.mkdir()
        for path, text in content.items():
            (version / path).write_text(text)
            if not (folder / path).is_symlink():
                (folder / path).symlink_to(Path("..data") / path)
        gone = former.resolve() if former.is_symlink() else None
        (folder / "..data_tmp").symlink_to(version.name)
        (folder / "..data_tmp").replace(former)
        if gone:
            shutil.rmtree(gone)

    # --- probes

    async def _probe_all(self) -> None:
        container, process = self.container, self._process
        assert process
        startup = container.get("startupProbe")
        if startup and not await self._turns(startup, towards=True):
            process.kill()
            return
        if liveness := container.get("livenessProbe"):
            async with asyncio.TaskGroup() as probes:
                probes.create_task(self._follow_readiness())
                await self._turns(liveness, towards=False)
                await self.delete_container()
        else:
            await self._follow_readiness()

    async def _follow_readiness(self) -> None:
        probe = self.container.get("readinessProbe")
        if probe is None:
            self._set_ready(True)
            return
        while True:
            await self._turns(probe, towards=not self.is_ready)
            self._set_ready(not self.is_ready)

    async def _turns(self, probe: Spec, *, towards: bool) -> bool:
        """Return whether the probe has succeeded, or failed, as often in a row as its threshold says. A startup probe
        waits for success, and also ends when it has failed too often."""
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        needed = {True: probe.get("successThreshold", 1), False: probe.get("failureThreshold", 3)}
        is_startup = probe is self.container.get("startupProbe")
        count, last = 0, None
        while True:
            result = await self._check(probe)
            count = count + 1 if result is last else 1
            last = result
            if count >= needed[result] and (result is towards or is_startup):
                return result
            await asyncio.sleep(probe.get("periodSeconds", 10))

    async def _check(self, probe: Spec) -> bool:
        with contextlib.suppress(OSError, TimeoutError, aiohttp.ClientError):
            async with asyncio.timeout(probe.get("timeoutSeconds", 1)):
                return await self._do(probe)
        return False

    async def _do(self, action: Spec) -> bool:
        """Return whether what a probe or a hook asks for succeeded."""
        match action:
            case {"httpGet": get}:
                scheme, port = get.get("scheme", "HTTP").lower(), self.port(get["port"])
                async with (
                    aiohttp.ClientSession() as http,
                    http.get(f"{scheme}://{self.address}:{port}{get['path']}", ssl=False) as answer,
                ):
                    return 200 <= answer.status < 400
            case {"tcpSocket": {"port": port}}:
                _, writer = await asyncio.open_connection(self.address, self.port(port))
                writer.close()
                return True
            case {"exec": {"command": command}}:
                process = await self._start(command, self._root / "probes")
                try:
                    return await process.wait() == 0
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()
            case {"sleep": {"seconds": seconds}}:
                await asyncio.sleep(seconds)
                return True
        raise NotImplementedError(action)

    def _set_ready(self, is_ready: bool) -> None:
        # A pod that is being deleted stops being an endpoint, whatever its probe says.
        is_ready = is_ready and not self.is_deleting
        if is_ready is not self.is_ready:
            self.is_ready = is_ready
            self._around.changed(self)

    # --- end

    def crash(self) -> None:
        """Kill the container at once, as a fault or a lack of memory would. It starts again."""
        assert self._process
        self._is_crashing = True
        os.killpg(self._process.pid, signal.SIGKILL)

    async def delete(self) -> None:
        """Take it out of its Services and end it: preStop, SIGTERM, and SIGKILL when its grace is over."""
        if not self.is_deleting:
            self.is_deleting = True
            self._set_ready(False)
            await self.delete_container()
        await self._life

    async def delete_container(self) -> None:
        """End the container, which starts again unless the pod is being deleted."""
        loop = asyncio.get_running_loop()
        grace_s = self.spec.get("terminationGracePeriodSeconds", 30)
        end_s = loop.time() + grace_s
        if hook := self.container.get("lifecycle", {}).get("preStop"):
            await self._within(self._do(hook), grace_s)
        if (process := self._process) is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        if not await self._within(process.wait(), max(_MIN_GRACE_S, end_s - loop.time())):
            self.was_killed = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    async def _within(self, work: Awaitable[Any], timeout_s: float) -> bool:
        try:
            await asyncio.wait_for(work, timeout_s)
        except TimeoutError:
            return False
        return True


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda name: variables.get(name[1], name[0]), text)
