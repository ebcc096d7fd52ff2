"""A master process: all objects that exist once per process."""

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial

from jqmaster import __version__
from jqmaster.api.app import build_app, limits_in_force
from jqmaster.api.encoding.content import ContentReader
from jqmaster.api.http.auth import AccessPolicy, Credentials, configured_tokens, is_loopback
from jqmaster.api.http.namespace_paths import NAMESPACES, Application, NamespacePaths, RootPaths
from jqmaster.api.http.server import MasterServer
from jqmaster.app.departure import Departure
from jqmaster.app.measuring import shard_metrics
from jqmaster.app.namespace_services import installation_troubles, move_loop, namespace_services
from jqmaster.app.namespace_set import NamespaceSet
from jqmaster.app.open_namespace import OpenNamespace
from jqmaster.app.outside_logins import oidc_provider, provider_policy, proxy_login
from jqmaster.app.policies import Policies
from jqmaster.app.process_bounds import ProcessBounds
from jqmaster.app.served_store import ServedStore
from jqmaster.app.services import RequestServices
from jqmaster.app.shard import ServedShard
from jqmaster.app.shard_faults import ShardFaults
from jqmaster.app.shared import Shared, call_contexts
from jqmaster.app.store_set import StoreSet
from jqmaster.clock import Clock, SharedRests
from jqmaster.config import DEFAULT_STORE, Settings
from jqmaster.domain.namespaces.namespace import DEFAULT, OTHER_NAMESPACES, Namespace
from jqmaster.domain.namespaces.quotas import quotas_of
from jqmaster.domain.operations.master import MasterRecord
from jqmaster.lifecycle import Component, LoopFailures
from jqmaster.net.egress import EgressGuard
from jqmaster.net.store_url import StoreUrl
from jqmaster.net.webhook_secret import secret_bytes
from jqmaster.runtime.leadership.hand_over import HandOver, LedNamespace
from jqmaster.runtime.leadership.lead_preference import LeadPreference
from jqmaster.runtime.leadership.live_masters import LiveMasters
from jqmaster.runtime.leadership.local_leader import LocalLeader
from jqmaster.runtime.leadership.master_client import PeerClient
from jqmaster.runtime.leadership.own_address import at_port, own_url
from jqmaster.runtime.outbound.mail_client import mail_client
from jqmaster.runtime.outbound.target_client import TargetClient
from jqmaster.runtime.outbound.webhook_client import WebhookClient
from jqmaster.runtime.outbound.worker_client import WorkerClient
from jqmaster.service.identity.identity import Identity, OwnLogins
from jqmaster.service.identity.namespace_identity import NamespaceIdentity
from jqmaster.service.namespaces.registry import NamespaceRegistry
from jqmaster.service.operations.live_settings import LiveSettings
from jqmaster.service.operations.metrics import Metrics
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.disk_copy import RegistryCopy
from jqmaster.store.namespaces.namespaces import NamespaceStore
from jqmaster.store.operations.settings import SettingsStore
from jqmaster.tracing import Tracing

logger = logging.getLogger(__name__)


class Master:
    """One process of this service. It has the objects that exist once per process: the settings, the users and
    tokens, the clients for workers and other masters, and the HTTP server. `shard` has everything about the data
    of one store. `running_master` builds a master when the store answers.

    * `link`: the shard of the default namespace.
    * `failed`: set when the process must end. `failure` has the reason.
    * `store`: None if the store of the default namespace is away and other namespaces can be served.

    Without `store`, `link` has its own client and no mark. It then serves the data of that store that all
    namespaces need. The default namespace is opened later, like the others. From then on, `shard` and `services`
    exist.
    """

    shard: ServedShard
    services: RequestServices
    _default_metrics: Metrics

    def __init__(
        self,
        settings: Settings,
        store: ServedStore | None,
        link: Shard,
        clock: Clock,
        *,
        own_tokens: Sequence[str] = (),
    ) -> None:
        self.settings = settings
        self.id = str(uuid.uuid4())
        self.failed = asyncio.Event()
        self._own_failures = LoopFailures(clock)
        local_leader = LocalLeader()
        if store:
            link = replace(link, leader=local_leader)
        self._link = link
        self._rests = SharedRests(clock)
        self.live = LiveSettings(settings, SettingsStore(link), rests=self._rests)
        self._store = store
        self._url = store.url if store else _configured_url(settings)
        self._guards: list[EgressGuard] = []
        self._own_url: str | None = None
        self.registry = NamespaceRegistry(
            NamespaceStore(link),
            RegistryCopy(settings.data_dir, self._url, settings.shard),
            clock,
            shard=settings.shard,
            defaults=self.live.derive(lambda s: quotas_of(s.namespace_quotas)),
        )
        self.live.follow(lambda _: self.registry.tell())
        policies = Policies(self.live)
        self.guard = self._make_guard(settings.allowed_worker_networks)
        self.shared = self._make_shared(policies, clock)
        self._configured = configured_tokens(settings, own_tokens)
        self.identity = Identity.on(
            link,
            clock,
            self._configured,
            policies.logins,
            is_exposed=settings.public_url is not None,
            rests=self._rests,
            fresh=self.live.fresh,
            provider=oidc_provider(settings, clock),
            provider_policy=provider_policy(settings),
            starts_blind=store is None,
        )
        self.live.follow_namespaces(self.registry.wake)
        self.stores = StoreSet(store, settings, clock, url=self._url, on_opened=self._take_opened)
        self.namespaces = NamespaceSet(
            self.registry, self.stores, self._build_namespace, clock, serves_default=store is None
        )
        self._hand_over = HandOver(
            MasterStore(link), self.shared.leads, clock, master_id=self.id, led=self._led
        )
        self.registry.follow(lambda namespaces: self._hand_over.wake())
        self._proxy_login = proxy_login(settings, clock)
        self._policy = self._make_policy(self.identity.directory)
        self._limits = limits_in_force(self.live)
        if store:
            self._serve_default(store, link, local_leader, ShardFaults(clock, on_fail=self._end))
        self.server = MasterServer(
            self._make_app(),
            settings,
            policies.server,
            is_leaving=self.shared.departure.is_begun,
        )

    def _serve_default(
        self, store: ServedStore, link: Shard, local_leader: LocalLeader, faults: ShardFaults
    ) -> None:
        """Build the parts of the default namespace."""
        self.shard = ServedShard(
            self.shared,
            link,
            local_leader,
            store,
            faults,
            identity=self.identity.directory,
            describe=partial(self._describe, link.client),
        )
        self.shard.services.troubles = installation_troubles(
            self.registry, self.stores, link, self.shared, faults=self.namespaces.faults
        ).now
        self._default_metrics = shard_metrics(
            self.shared, self.shard, lambda: self.server.connections, self._further_faults
        )
        self.services = RequestServices(
            self.shared,
            self.shard,
            identity=self.identity,
            admit_url=self._admit_url,
            metrics=self._default_metrics,
            measured=self._measured,
            registry_faults=self.registry.faults,
            others=self.namespaces.faults,
            serves_others=lambda: self.namespaces.is_useful,
            namespaces=namespace_services(self.registry, self.stores, self.shard, self.shared),
        )

    def _make_app(self) -> Application:
        paths = NamespacePaths(self._app_of, self._policy)
        self._moves = move_loop(
            self.registry,
            self.stores,
            self._link,
            self.shared,
            is_served=lambda name: self.namespaces.is_serving(name) or paths.is_busy(name),
        )
        if self._store is None:
            return RootPaths(
                paths,
                is_default_served=lambda: self.namespaces.is_open(DEFAULT),
                is_useful=lambda: self.namespaces.is_useful and not self.shared.departure.is_begun.current,
                master_id=self.id,
            )
        return build_app(self.services.bundle(), self._policy, limits=self._limits, namespaces=paths)

    def _make_shared(self, policies: Policies, clock: Clock) -> Shared:
        settings = self.settings
        to_masters, to_workers = call_contexts(settings)
        webhook_guard = self._make_guard(settings.allowed_webhook_networks, allows_public=True)
        bounds = ProcessBounds(policies)
        webhook_secrets = [secret_bytes(secret.get_secret_value()) for secret in settings.webhook_secrets]
        return Shared(
            settings=settings,
            live=self.live,
            policies=policies,
            clock=clock,
            rests=self._rests,
            master_id=self.id,
            tracing=Tracing.from_settings(settings, self.id, __version__),
            masters=PeerClient(to_masters),
            workers=WorkerClient(self.guard, tls=to_workers, timeout_s=policies.push_timeout_s),
            webhooks=WebhookClient(webhook_guard, webhook_secrets),
            targets=TargetClient(
                webhook_guard, ContentReader(policies.content).from_json, policies.max_result_bytes
            ),
            mail=mail_client(settings),
            registry=self.registry,
            leads=LeadPreference(lambda: self.registry.current, LiveMasters(clock, policies.pace)),
            base=self._base,
            bounds=bounds,
            portions=bounds.for_one(),
            departure=Departure(settings.linger_s, has_failed=self.failed.is_set),
        )

    def components(self) -> list[Component]:
        """Return the components in the order of their dependencies.

        The server starts after all components that it uses, and stops before them. Waiting polls and streams must
        end before the server stops."""
        tracing = self.shared.tracing
        return [
            *([tracing] if tracing else []),
            self.shared.workers,
            self.shared.webhooks,
            self.shared.targets,
            self.shared.masters,
            self.live,
            *([*self._store.components(), *self.shard.lower_components()] if self._store else []),
            self.registry,
            self.namespaces.ending("requests"),
            *self.identity.components(),
            self.server,
            *([self.services.feed, *self.shard.asking_components()] if self._store else []),
            self.namespaces.ending("polls"),
            *self.shared.departure.around(
                [
                    *(self.shard.leading_components() if self._store else []),
                    self._hand_over,
                    self.namespaces,
                    self._moves,
                ]
            ),
        ]

    @property
    def store(self) -> ServedStore:
        """Return the store of the default namespace, once that namespace is served."""
        return self.shard.services.store

    @property
    def failures(self) -> LoopFailures:
        """Return the failures of the loops of this process."""
        return self.shard.services.faults.loops if self._store else self._own_failures

    def _led(self) -> dict[str, LedNamespace]:
        default = self.shard.led if self._store else None
        return {**({DEFAULT: default} if default else {}), **self.namespaces.led()}

    def _further_faults(self) -> list[str]:
        # Do not name other namespaces, because readers of `default` may not know that they exist.
        return [*self.registry.faults(), *([OTHER_NAMESPACES] if self.namespaces.faults() else [])]

    def _measured(self) -> dict[str, Metrics | None]:
        """See `MetricsPage`."""
        if len(self.registry.current) < 2:
            return {}
        return {DEFAULT: self._default_metrics, **self.namespaces.metrics()}

    def _app_of(self, namespace: str) -> Application:
        """Return the application for the requests of a namespace. Raise the errors of `NamespaceSet.app_of`."""
        return (
            self._default_app if namespace == DEFAULT and self._store else self.namespaces.app_of(namespace)
        )

    @cached_property
    def _default_app(self) -> Application:
        """Return the application for `/ns/default`. Its `/readyz` reports on this namespace and not on the process."""
        return build_app(self.services.bundle(is_alone=True), self._policy, limits=self._limits)

    def _build_namespace(
        self, namespace: Namespace, store: ServedStore, link: Shard, faults: ShardFaults
    ) -> OpenNamespace:
        local_leader = LocalLeader()
        link = replace(link, leader=local_leader)
        if namespace.is_default:
            self._serve_default(store, link, local_leader, faults)
            services = self.services
            return OpenNamespace(
                self.shard,
                lambda: services,
                follows=[],
                policy=self._policy,
                limits=self._limits,
                metrics=self._default_metrics,
            )
        live = LiveSettings(self.live, SettingsStore(link), rests=self._rests, namespace=namespace.name)
        identity = NamespaceIdentity.on(
            link,
            self.shared.clock,
            self.identity,
            self._configured,
            is_exposed=self.settings.public_url is not None,
            rests=self._rests,
            fresh=live.fresh,
            stale_tokens_s=self.shared.policies.stale_tokens_s,
            policy=self.shared.policies.logins,
        )
        shared = self.shared.for_namespace(namespace.name, f"{NAMESPACES}{namespace.name}", live)
        shard = ServedShard(
            shared,
            link,
            local_leader,
            store,
            faults,
            identity=identity.directory,
            describe=partial(self._describe, link.client),
        )
        metrics = shard_metrics(shared, shard, lambda: self.server.connections)
        make_requests = partial(
            RequestServices,
            shared,
            shard,
            identity=identity.services,
            admit_url=self._admit_url,
            metrics=metrics,
        )
        return OpenNamespace(
            shard,
            make_requests,
            follows=[live, identity.directory],
            policy=self._make_policy(identity.credentials, namespace.name, identity.services.own),
            limits=self._limits,
            metrics=metrics,
        )

    def _make_policy(
        self, credentials: Credentials, namespace: str = DEFAULT, own: OwnLogins | None = None
    ) -> AccessPolicy:
        return AccessPolicy.from_settings(
            self.settings,
            configured=self._configured,
            credentials=credentials,
            sessions=self.identity.sessions,
            own_sessions=own.sessions if own else None,
            proxy_login=self._proxy_login,
            namespace=namespace,
        )

    def _take_opened(self, store: ServedStore) -> None:
        """Refuse calls to a worker or a webhook at the address of any server of this store, whether it is the
        primary or not."""
        for guard in self._guards:
            store.client.on_located(guard.forbid)
        if store.url == self._url and self._store is None:
            self._link.client.quorum_replicas = store.client.quorum_replicas

    async def _describe(self, client: StoreClient, started_at_ms: int) -> MasterRecord:
        s, server = self.settings, self.server
        url = s.advertised_url
        if url is None:
            # Look up the address once, because it is the same in all namespaces.
            if self._own_url is None:
                self._own_url = await asyncio.to_thread(own_url, server.own_url, self._url)
            url = self._own_url
        elif server.own_port != server.port:
            # Use this process's own port. On the shared port, a check whether this master is alive could reach
            # another process.
            url = at_port(url, server.own_port)
        node_id = s.node_id or socket.gethostname()
        return MasterRecord(
            self.id,
            node_id,
            os.getpid(),
            url,
            __version__,
            started_at_ms,
            client.listens_sharded,
            delivers=True,
            knows_namespaces=True,
            stores=(DEFAULT_STORE, *sorted(s.stores)),
        )

    def _base(self) -> str | None:
        if self.settings.public_url is not None:
            return self.settings.public_url.rstrip("/")
        # On a loopback address, only this machine can call, so the address of this process is enough.
        return self.server.own_url if is_loopback(self.settings.host) else None

    def _make_guard(self, networks: Sequence[str], *, allows_public: bool = False) -> EgressGuard:
        """Return a guard that also refuses the addresses of all stores."""
        others = [one.redis_url.get_secret_value() for one in self.settings.stores.values()]
        endpoints = [one for url in (self._url, *others) for one in StoreUrl.parse(url).endpoints]
        guard = EgressGuard(networks, endpoints, allows_public=allows_public)
        self._guards.append(guard)
        self._link.client.on_located(guard.forbid)
        return guard

    async def _admit_url(self, url: str) -> str:
        target = self.guard.parse(url)
        # Do not resolve a host name here, because the answer could reveal its addresses. The call that verifies
        # the URL resolves the name.
        if target.is_address:
            await self.guard.resolve(target)
        return target.url

    @property
    def failure(self) -> str | None:
        """Return the reason why the process must end, or None if it continues."""
        return self.shard.services.faults.reason if self._store else None

    def _end(self, reason: str) -> None:
        logger.critical("%s", reason)
        self.failed.set()
        self.shard.services.judge_admission()


def _configured_url(settings: Settings) -> str:
    assert settings.redis_url  # an embedded store is never away while its master starts
    return settings.redis_url.get_secret_value()
