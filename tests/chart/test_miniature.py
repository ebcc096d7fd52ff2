"""The pods of the chart in a cluster in miniature: updates, drains, new certificates and scaling under load lose no
push and no job, and run none twice.

Times are those of the manifests, but for KEDA, which runs faster.
"""

import asyncio
import contextlib
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from cryptography import x509

from tests.chart.cluster import Cluster
from tests.chart.installation import Installation, installed, runs_by_make_test_chart
from tests.chart.keda import Keda
from tests.chart.kubelet import Pod
from tests.chart.load import Pushes
from tests.chart.network_policies import Peer, Policies, Tracer
from tests.support import real_time
from tests.support.waiting import wait_until

pytestmark = [runs_by_make_test_chart, pytest.mark.timeout(600), real_time.PROCESSES]

MAIL, VIDEO, REPORTS = "jqmaster-worker-mail", "jqmaster-worker-video", "jqmaster-worker-reports"


@pytest.mark.req("D27")
async def test_a_rolling_update_and_a_drained_node_refuse_no_push(tmp_path: Path) -> None:
    async with installed("external", tmp_path, job_names={MAIL: ["work"]}) as installation:
        cluster = installation.cluster
        await cluster.settled()
        async with Pushes(installation.url, installation.token(), "work") as pushes:
            await asyncio.sleep(1)
            for workload in cluster.workloads():
                cluster.roll(workload["metadata"]["name"], "next version")
            await cluster.settled()
            least = asyncio.create_task(least_ready(cluster, "master"))
            await cluster.drain("node-a")
            await cluster.settled()
            assert {pod.node for pod in cluster.pods} == {"node-b"}
            least.cancel()
            assert await least >= 1, "the budget lets one of two masters be away"
        await wait_until(lambda: installation.journal.has_all(pushes), timeout_s=60)
        installation.journal.assert_once_each(pushes)


async def least_ready(cluster: Cluster, component: str) -> int:
    """Return the least number of ready pods that was seen until the cancellation."""
    least = 1000
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            pods = cluster.selected({"app.kubernetes.io/component": component})
            least = min(least, sum(pod.is_ready for pod in pods))
            await asyncio.sleep(0.05)
    return least


@pytest.mark.req("D27")
async def test_workers_scale_from_zero_and_back_by_demand(tmp_path: Path) -> None:
    names = {MAIL: ["mail.send", "mail.digest"], VIDEO: ["video.encode"]}
    async with installed("keda", tmp_path, job_names=names) as installation:
        cluster, journal = installation.cluster, installation.journal
        keda = Keda(cluster, pace=10)
        await cluster.settled()
        assert not cluster.owned(MAIL)
        scaling = asyncio.create_task(keda.run())
        mail, video = (
            Pushes(installation.url, installation.token(), name, run_s=4)
            for name in ("mail.send", "video.encode")
        )
        await mail.burst(20)
        await video.burst(2)
        await wait_until(lambda: journal.has_all(mail) and journal.has_all(video), timeout_s=60)
        await wait_until(lambda: not cluster.owned(MAIL) and not cluster.owned(VIDEO), timeout_s=90)
        scaling.cancel()
        await asyncio.wait([scaling])
        assert scaling.cancelled()

        most = {name: max(pods for one, _, pods in keda.history if one == name) for name in (MAIL, VIDEO)}
        assert most[MAIL] == 5, "20 jobs on workers of 4 slots"
        assert most[VIDEO] == 2, "one pod for each long job"
        assert keda.history[-1][2] == 0
        assert {pod.exit_code for pod in cluster.ended if pod.owner == VIDEO} == {0}
        mail.accepted += video.accepted
        mail.refused += video.refused
        journal.assert_once_each(mail)


@pytest.mark.req("D27")
async def test_new_certificates_are_served_without_a_restart(tmp_path: Path) -> None:
    async with installed("tls", tmp_path, job_names={MAIL: ["work"], REPORTS: ["work"]}) as installation:
        cluster = installation.cluster
        await cluster.settled()
        before = await serials(installation)
        # Masters, and workers that masters call.
        assert len(before) >= 3
        tls = installation.tls()
        async with Pushes(installation.url, installation.token(), "work", tls=tls) as pushes:
            for certificate in cluster.of_kind("Certificate").values():
                cluster.apply(installation.authority.sign_for(certificate))

            async def are_all_new() -> bool:
                now = await serials(installation)
                return now.keys() == before.keys() and all(now[one] != before[one] for one in now)

            await wait_until(are_all_new, timeout_s=60)
            # Some seconds of work with the new ones, in both directions.
            pushed = len(pushes.accepted)
            await wait_until(lambda: len(pushes.accepted) > pushed + 30)
        await wait_until(lambda: installation.journal.has_all(pushes), timeout_s=60)
        installation.journal.assert_once_each(pushes)
        assert not cluster.ended


async def serials(installation: Installation) -> dict[str, int]:
    """Return the serial numbers of the certificates that the pods serve."""
    context = installation.authority.client_context()
    found = {}
    for pod in installation.cluster.pods:
        for port in pod.container.get("ports", ()):
            _, writer = await asyncio.open_connection(pod.address, port["containerPort"], ssl=context)
            shown = writer.get_extra_info("ssl_object")
            assert isinstance(shown, ssl.SSLObject)
            found[pod.name] = x509.load_der_x509_certificate(shown.getpeercert(True) or b"").serial_number
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    return found


@pytest.mark.req("D27")
@pytest.mark.skipif(not Tracer.is_there(), reason="needs strace")
async def test_each_connection_is_allowed_and_no_rule_is_in_vain(tmp_path: Path) -> None:
    tracer = Tracer(tmp_path / "connections")
    async with installed("external", tmp_path, job_names={MAIL: ["work"]}, tracer=tracer) as installation:
        cluster = installation.cluster
        policies = Policies(cluster)
        await cluster.settled()
        async with Pushes(installation.url, installation.token(), "work") as pushes:
            await wait_until(lambda: len(pushes.accepted) > 10)
        await wait_until(lambda: installation.journal.has_all(pushes))
        # A master calls another one only as the sub-leader of a leader that falls silent. A leader that ends in order
        # gives back the lead.
        standby = await wait_until(lambda: of_role("sub_leader", installation))
        leader = await wait_until(lambda: of_role("leader", installation))
        leader.crash()
        await wait_until(lambda: not leader.is_ready)

        async def is_taken_over() -> bool:
            return await of_role("leader", installation) is standby

        await wait_until(is_taken_over, timeout_s=30)
        await cluster.settled()
        pods = {pod.name: pod for pod in (*cluster.pods, *cluster.ended)}
        assert policies.refused_connections(pods, tracer, cluster) == []

        # The values allow these rules too; nothing here uses them.
        master, worker = policies.pod(standby), policies.pod(cluster.owned(MAIL)[0])
        store = Peer({"app.kubernetes.io/name": "valkey"}, policies.own, {})
        ingress, monitoring, elsewhere = (
            Peer({}, {"kubernetes.io/metadata.name": name}, {})
            for name in ("ingress-nginx", "monitoring", "x")
        )
        client = Peer({"jqmaster-client": "true"}, policies.own, {})
        for caller in (ingress, monitoring, client):
            assert policies.refusals(caller, master, 8080) == []
        assert policies.refusals(store, store, 6379) == []
        assert policies.refusals(master, elsewhere, 443) == []
        assert policies.refusals(worker, elsewhere, 587) == []
        assert policies.unused() == set()

        # Any other connection is refused.
        stranger = Peer({}, policies.own, {})
        for caller, called, port in (
            (stranger, master, 8080), (stranger, worker, 9000), (stranger, store, 6379), (elsewhere, master, 8080),
            (worker, store, 6379), (worker, worker, 9000), (client, worker, 9000), (master, elsewhere, 25),
        ):  # fmt: skip
            assert policies.refusals(caller, called, port) != [], (caller, called, port)


async def of_role(role: str, installation: Installation) -> Pod | None:
    """Return the master that has this role, as the masters say. One that is not ready is not asked."""
    pods = installation.cluster.owned("jqmaster-master")
    asked = next(pod for pod in pods if pod.is_ready)
    headers = {"Authorization": f"Bearer {installation.token('jqmaster-read')}"}
    async with (
        aiohttp.ClientSession(headers=headers) as http,
        http.get(f"http://{asked.address}:{asked.port('http')}/api/masters") as answer,
    ):
        listed = (await answer.json())["masters"]
    addresses = {urlsplit(one["url"]).hostname for one in listed if one["role"] == role}
    return next((pod for pod in pods if pod.address in addresses), None)
