"""Objects of a process that all its shards use."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from jqmaster.app.departure import Departure
from jqmaster.app.policies import Policies
from jqmaster.app.process_bounds import NamespacePortions, ProcessBounds
from jqmaster.clock import Clock, SharedRests
from jqmaster.config import Settings
from jqmaster.domain.namespaces.namespace import DEFAULT
from jqmaster.runtime.leadership.lead_preference import LeadPreference
from jqmaster.runtime.leadership.master_client import PeerClient
from jqmaster.runtime.outbound.mail_client import MailClient
from jqmaster.runtime.outbound.target_client import TargetClient
from jqmaster.runtime.outbound.webhook_client import WebhookClient
from jqmaster.runtime.outbound.worker_client import WorkerClient
from jqmaster.service.namespaces.registry import NamespaceRegistry
from jqmaster.service.operations.live_settings import LiveSettings
from jqmaster.tracing import Tracing
from worker_sdk.transport.tls import LiveContext, client_context


@dataclass(frozen=True, slots=True)
class Shared:
    """Objects that a process has once.

    These values differ between namespaces:

    * `prefix`: the beginning of its paths.
    * `live`: the settings in force there.
    * `policies`: the values that components read from these settings.
    * `portions`: the portions of `bounds` that the namespace may use.

    All namespaces share the other values, among them:

    * `settings`: the configured settings.
    * `rests`: the place where idle loops wait.
    * `registry`: the namespaces of the installation.
    * `leads`: the preferred master of each namespace.
    * `base`: returns the address at which outside systems reach this process, or None if it is unknown.
    * `mail`: None if no mail server is configured.
    """

    settings: Settings
    live: LiveSettings
    policies: Policies
    clock: Clock
    rests: SharedRests
    master_id: str
    tracing: Tracing | None
    masters: PeerClient
    workers: WorkerClient
    webhooks: WebhookClient
    targets: TargetClient
    mail: MailClient | None
    registry: NamespaceRegistry
    leads: LeadPreference
    base: Callable[[], str | None]
    departure: Departure
    bounds: ProcessBounds
    portions: NamespacePortions
    prefix: str = ""

    def for_namespace(self, name: str, prefix: str, live: LiveSettings) -> "Shared":
        """Return these objects with the values of another namespace. Its leases last at least as long as an
        announced stop."""

        def stop_ms() -> int:
            known = self.registry.current.get(name)
            return known.stop_ms if known else 0

        policies = Policies(live).with_leases(stop_ms)
        return replace(self, prefix=prefix, live=live, policies=policies, portions=self.bounds.for_one())

    @property
    def namespace(self) -> str:
        """Return the name of the namespace."""
        return self.prefix.rpartition("/")[2] or DEFAULT

    def callback_base(self) -> str | None:
        """Return the address at which outside systems reach the namespace, or None if it is unknown."""
        base = self.base()
        return None if base is None else base + self.prefix

    @property
    def public_url(self) -> str | None:
        """Return the address of the namespace's web UI, or None if it is not configured."""
        url = self.settings.public_url
        return None if url is None else url.rstrip("/") + self.prefix


def call_contexts(settings: Settings) -> tuple[LiveContext | None, LiveContext | None]:
    """Return the TLS contexts for calls to masters and for calls to workers. None: the client's default."""
    shown = (settings.calls_certfile, settings.calls_keyfile)
    to_masters = client_context(None, *shown, verifies=False) if settings.calls_certfile else None
    to_workers = (
        client_context(settings.calls_cafile, *shown)
        if settings.calls_cafile or settings.calls_certfile
        else None
    )
    return to_masters, to_workers
