"""An installation of the chart: a golden rendering, with all that it takes for granted in a cluster."""

import base64
import contextlib
import os
import random
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
import trustme
import yaml

from jqmaster.store.health.rights import PASSWORD, USER
from tests.chart.cluster import Cluster, parsed
from tests.chart.handlers import write_image
from tests.chart.kubelet import Spec
from tests.chart.load import Journal
from tests.chart.service_proxy import ServiceProxy
from tests.support.server import StoreServer, started

ROOT: Final = Path(__file__).parents[2]
GOLDEN: Final = ROOT / "deploy" / "helm" / "golden"
# The random generator of the test order would give the same numbers to two runs at a time.
_random: Final = random.SystemRandom()

runs_by_make_test_chart = pytest.mark.skipif(
    not os.environ.get("JQMASTER_CHART"), reason="runs by `make test-chart`"
)


class Installation:
    """A running cluster with `cluster`, the `journal` of its workers, and the authority of all certificates."""

    def __init__(self, cluster: Cluster, journal: Journal, authority: "Authority") -> None:
        self.cluster, self.journal, self.authority = cluster, journal, authority
        scheme = "https" if cluster.of_kind("Certificate") else "http"
        self.url = f"{scheme}://{cluster.url_of('jqmaster')}"

    def token(self, secret: str = "jqmaster-worker") -> str:
        return self.cluster.data_of("Secret", secret)["token"]

    def tls(self) -> ssl.SSLContext | bool:
        """Return the certificates that a client presents and trusts."""
        if not self.cluster.of_kind("Certificate"):
            return True
        return self.authority.client_context()


class Authority:
    """It signs for the store and for cert-manager. A certificate also has the addresses that its names would have in
    the DNS of a cluster."""

    def __init__(self, network: str) -> None:
        self._ca = trustme.CA()
        self._addresses = [f"{network}.{number}" for number in (*range(1, 100), 254)]

    def issue(self, *names: str) -> dict[str, str]:
        """Return the entries of a Secret with a new certificate."""
        issued = self._ca.issue_cert(*names, *self._addresses)
        return {
            "ca.crt": self._ca.cert_pem.bytes().decode(),
            "tls.crt": "".join(pem.bytes().decode() for pem in issued.cert_chain_pems),
            "tls.key": issued.private_key_pem.bytes().decode(),
        }

    def client_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self._ca.configure_trust(context)
        self._ca.issue_cert("client").configure_cert(context)
        return context

    def server_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._ca.issue_cert(*self._addresses).configure_cert(context)
        return context

    def sign_for(self, certificate: Spec) -> Spec:
        """Return the Secret that cert-manager would write."""
        spec = certificate["spec"]
        return {
            "kind": "Secret",
            "metadata": {"name": spec["secretName"]},
            "stringData": self.issue(*spec["dnsNames"]),
        }


@contextlib.asynccontextmanager
async def installed(
    golden: str,
    directory: Path,
    *,
    job_names: Mapping[str, Sequence[str]],
    lag_s: float = 2.0,
    tracer: Callable[[str], list[str]] = lambda _: [],
) -> AsyncIterator[Installation]:
    """Run a golden rendering on a store of its own. `job_names`: the jobs that each workload runs."""
    network = f"127.{_random.randrange(16, 250)}.{_random.randrange(1, 250)}"
    authority, store = Authority(network), StoreServer()
    with (GOLDEN / f"{golden}.yaml").open() as file:
        manifests = parsed(yaml.safe_load_all(file))
    image = directory / "image"
    for one in manifests:
        names = job_names.get(one["metadata"]["name"])
        if names and one["kind"] in ("Deployment", "StatefulSet", "ScaledJob"):
            write_image(one["spec"].get("template") or one["spec"]["jobTargetRef"]["template"], image, names)
    uses_tls = "JQMASTER_REDIS_CAFILE" in str(manifests)
    cluster = Cluster(
        manifests,
        directory,
        network=network,
        secrets=secrets(authority, uses_tls=uses_tls),
        names={"store": f"{network}.254"},
        lag_s=lag_s,
        environment={
            "PYTHONPATH": f"{image}:{ROOT}",
            "JOURNAL": str(directory / "journal"),
        },
        tracer=tracer,
    )
    for certificate in cluster.of_kind("Certificate").values():
        cluster.apply(authority.sign_for(certificate))
    with started(store):
        front = ServiceProxy(
            f"{network}.254", 6379, lag_s=0, tls=authority.server_context() if uses_tls else None
        )
        front.tell([str(store.socket)])
        await front.start()
        try:
            async with cluster.running():
                yield Installation(cluster, Journal(directory / "journal"), authority)
        finally:
            await front.stop()


def secrets(authority: Authority, *, uses_tls: bool) -> dict[str, Mapping[str, str]]:
    """Return the Secrets that the chart takes by reference."""
    tokens = {"jqmaster-worker": "work+push", "jqmaster-video": "work+push", "jqmaster-read": "read"}
    return {
        **{name: {"token": f"token-of-{name}"} for name in tokens},
        "jqmaster-tokens": {
            "tokens": "".join(f"{scopes}:token-of-{name}\n" for name, scopes in tokens.items())
        },
        "jqmaster-store": {
            "url": f"{'rediss' if uses_tls else 'redis'}://{USER}:{PASSWORD}@store:6379/0",
        },
        "jqmaster-store-ca": authority.issue("store"),
        "jqmaster-store-client": authority.issue("client"),
        "jqmaster-webhooks": {"secrets": "whsec_" + base64.b64encode(b"s" * 32).decode()},
    }
