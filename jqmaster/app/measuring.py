"""Build the metrics of a shard."""

import socket
from collections.abc import Callable
from functools import partial

from jqmaster import __version__
from jqmaster.app.shard import ServedShard
from jqmaster.app.shared import Shared
from jqmaster.net.certificate_ends import certificate_ends_s
from jqmaster.service.constraints.preview import Previews, PreviewTurns
from jqmaster.service.constraints.reader import ConstraintReader
from jqmaster.service.operations.metrics import Metrics
from jqmaster.service.operations.process_metrics import OwnFacts
from jqmaster.service.operations.store_facts import StoreFactsReader
from jqmaster.store.operations.demand import DemandStore


def shard_metrics(
    shared: Shared,
    shard: ServedShard,
    connections: Callable[[], int],
    further_faults: Callable[[], list[str]] = list,
) -> Metrics:
    """Return the metrics of the namespace on this shard.
    * `connections`: counts the clients' connections to the server.
    * `further_faults`: returns the names of faults outside the shard.
    """
    services = shard.services
    return Metrics(
        services.tally,
        services.traffic,
        (services.store.client, services.store.reserve),
        figures=services.figures,
        own=lambda: _own_facts(shared, shard, connections(), further_faults()),
        ask_store=_store_facts(shared, shard).read,
        is_away=lambda: services.health.is_away,
    )


def _store_facts(shared: Shared, shard: ServedShard) -> StoreFactsReader:
    services, stores = shard.services, shard.services.stores
    turns = PreviewTurns(shared.clock, shared.portions.previews)
    previews = Previews(stores.lanes, services.usage, shared.clock, turns)
    return StoreFactsReader(
        stores.inspector,
        stores.workers,
        ConstraintReader(services.constraints, services.usage, stores.gates, previews),
        stores.leadership,
        stores.history,
        demand=DemandStore(services.link),
        logs=stores.logs,
        log_retention_ms=shared.policies.log_retention_ms if shared.settings.log_archive_url else None,
        stale_ms=shared.policies.stale_ms,
    )


def _own_facts(shared: Shared, shard: ServedShard, connections: int, further_faults: list[str]) -> OwnFacts:
    health, leader = shard.services.health, shard.leader
    return OwnFacts(
        is_leader=leader.leadership is not None,
        times_led=leader.times_led,
        connections=connections,
        faults=[*health.faults, *(["process"] if shard.services.faults.reason else [])],
        duty_faults=[*shard.duty_faults(), *further_faults],
        memory_used_bytes=health.report.memory_used_bytes,
        memory_max_bytes=health.report.memory_max_bytes,
        settings_version=shared.live.version,
        labels={
            "version": __version__,
            "master_id": shared.master_id,
            "node_id": shared.settings.node_id or socket.gethostname(),
        },
        certificate_ends_s=partial(certificate_ends_s, shared.settings),
    )
