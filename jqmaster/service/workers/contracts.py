"""Contracts of job names: workers declare contracts, and pushes are checked against them."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jqmaster.clock import Clock
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.domain.workers.contract import Contract, digest_of
from jqmaster.domain.workers.schema_size import MAX_UNROLLED, unrolled_size
from jqmaster.domain.workers.worker import Worker
from jqmaster.errors import FieldError, InvalidError, NotFoundError, OverloadedError
from jqmaster.live_value import LiveValue
from jqmaster.service.workers.schema_judge import UNJUDGED, JudgeTask, SchemaJudge
from jqmaster.service.workers.schemas import BadSchemaError, Misfit
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.workers.contracts import ContractStore, ReportedContract
from jqmaster.store.workers.workers import WorkerStore

logger = logging.getLogger(__name__)

# Cached contracts are read again after LIFE_S, or after MIN_LIFE_S if an argument does not fit them.
LIFE_S: Final = 5.0
MIN_LIFE_S: Final = 0.5
MAX_NAMES: Final = 2_000
# Maximum number of served names that are cached. A name that any worker has ever served counts as served.
MAX_SERVED: Final = 20_000
# Minimum time between two log messages about the same name and kind of finding.
LOG_EVERY_S: Final = 60.0
# Maximum number of findings that are reported for one bulk.
MAX_FINDINGS: Final = 50
# Number of jobs of a bulk that are checked together. The check of the bulk stops after the page that reaches
# MAX_FINDINGS.
_JOBS_PER_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class NameContracts:
    """The contracts of one job name. `live`: the live workers that serve the name, by the digest of their contract. The
    key "" has the workers that declared none."""

    told: Sequence[ReportedContract]
    is_served: bool
    live: Mapping[str, Sequence[Worker]]


@dataclass(frozen=True, slots=True)
class _Known:
    """The rules for pushes of one name. `schemas`: JSON texts by digest. An argument must fit at least one of them.
    Without schemas, every argument fits."""

    at_s: float
    is_served: bool
    schemas: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ContractBreach:
    """A push that breaks the contract. `code`: `unserved_name`, `invalid_argument`, or `unchecked_argument` if the
    schema took too much time or memory for this argument."""

    code: str
    name: str
    errors: list[FieldError] = field(default_factory=list)
    keywords: str = ""


_DETAILS: Final = {
    "unserved_name": "no worker has ever served the name {name}",
    "invalid_argument": "the argument does not fit the schema that workers reported for {name}",
    "unchecked_argument": "the argument could not be checked against the schema that workers reported for {name}",
}
_UNCHECKED: Final = (
    "the schema took too much time or memory for this argument; simplify the schema or the argument, or remove the "
    "contract of the name"
)


class ContractService:
    """Records contracts and checks pushes against them. Methods raise what the store raises."""

    def __init__(
        self,
        contracts: ContractStore,
        workers: WorkerStore,
        judge: SchemaJudge,
        clock: Clock,
        stale_ms: LiveValue[int],
    ) -> None:
        self._contracts = contracts
        self._judge = judge
        self._workers = workers
        self._clock = clock
        self._stale_ms = stale_ms
        self._known: dict[str, _Known] = {}
        # Digests of schemas that are known to be valid.
        self._sound: set[str] = set()
        self._logged_s: dict[tuple[str, str], float] = {}
        self._lock = asyncio.Lock()
        self._served: set[str] = set()
        # Returns whether all given names are in the cache of served names. Does not read the store.
        self.were_served: Callable[[Iterable[str]], bool] = self._served.issuperset
        self._unserved_at_s: dict[str, float] = {}
        self._live: set[str] = set()
        self._live_at_s = float("-inf")

    async def declare(self, names: Sequence[str], contracts: Mapping[str, Contract]) -> None:
        """Record the contracts that a registering worker declares. Raise InvalidError for an invalid schema."""
        errors = []
        for name, contract in contracts.items():
            if contract.argument_schema is not None and (fault := await self._schema_fault(contract)):
                errors.append(FieldError(("contracts", name, "argument_schema"), fault))
        if errors:
            raise InvalidError("an argument schema is invalid", errors=errors)
        await self._contracts.declare(names, contracts)
        self._note_served(names)
        for name, contract in contracts.items():
            self._known.pop(name, None)
            found = await self.of(name)
            if others := [digest for digest in _schemas_told(found) if digest != contract.schema_text()]:
                self._log("schemas_differ", name, f"live workers declare {len(others) + 1} different schemas")

    async def remove(self, name: str, who: str) -> None:
        """Remove the contracts of a name. A worker may declare one again later. Raise NotFoundError if the name has
        none."""
        entry = encode_entry(who=who, action="contracts.remove", target=name, before=None, after=None)
        if not await self._contracts.remove(name, entry):
            raise NotFoundError(f"no contract of the name {name[:100]}", code="unknown_contract")
        self._known.pop(name, None)

    async def _schema_fault(self, contract: Contract) -> str | None:
        text = contract.schema_text()
        digest = digest_of(text)
        if digest in self._sound:
            return None
        try:
            size = unrolled_size(contract.argument_schema)
        except RecursionError:
            return "is nested too deeply; use shorter chains of $ref"
        if size > MAX_UNROLLED:
            return (
                f"has more than {MAX_UNROLLED:,} subschemas when each $ref is replaced by its target; "
                "use fewer alternatives (anyOf, oneOf, allOf) that contain each other, or give no argument_schema"
            )
        try:
            fault = await self._judge.fault(digest, text)
        except BadSchemaError as exc:
            return str(exc)
        if fault is None:
            if len(self._sound) >= MAX_NAMES:
                self._sound.clear()
            self._sound.add(digest)
        return fault

    async def of(self, name: str) -> NameContracts:
        """Return the contracts of a name."""
        told, is_served = await self._contracts.of(name)
        workers, now_ms = await self._workers.all_with_time()
        live: dict[str, list[Worker]] = {}
        for worker in workers:
            if (
                name in worker.spec.names
                and not worker.is_detached
                and worker.is_fresh(now_ms, self._stale_ms.current)
            ):
                live.setdefault(worker.spec.contracts.get(name, ""), []).append(worker)
        return NameContracts(told, is_served or bool(live), live)

    async def view(self, name: str) -> dict[str, Any]:
        """Return the contracts of a name, with warnings, in the form of the API."""
        found = await self.of(name)
        contracts = []
        for one in found.told:
            workers = found.live.get(one.digest, ())
            contracts.append(
                {
                    "version": one.contract.version,
                    "argument_schema": one.contract.argument_schema,
                    "options": dict(one.contract.options),
                    "live_workers": len(workers),
                    "worker_versions": sorted({worker.spec.version for worker in workers}),
                    "told_at": iso_ms(one.reported_at_ms),
                }
            )
        # Sort the contracts of live workers first.
        contracts.sort(key=lambda one: not one["live_workers"])
        return {"is_served": found.is_served, "contracts": contracts, "warnings": _warnings(found)}

    async def check(self, specs: Sequence[JobSpec], *, is_bulk: bool, refuses: bool) -> list[str]:
        """Check a push, and return the codes of the findings. If `refuses`, raise InvalidError for findings instead,
        and OverloadedError if the checking process is busy."""
        findings: list[ContractBreach] = []
        for first in range(0, len(specs), _JOBS_PER_PAGE):
            page = specs[first : first + _JOBS_PER_PAGE]
            locs = [("jobs", first + n) if is_bulk else () for n in range(len(page))]
            try:
                findings += await self._breaches(page, locs)
            except OverloadedError:
                if refuses:
                    raise
                findings.append(ContractBreach("unchecked_argument", page[0].name))
            if len(findings) >= MAX_FINDINGS:
                del findings[MAX_FINDINGS:]
                break
        if findings and refuses:
            worst = findings[0]
            errors = [error for finding in findings for error in finding.errors]
            raise InvalidError(_DETAILS[worst.code].format(name=worst.name), code=worst.code, errors=errors)
        for finding in findings:
            self._log(finding.code, finding.name, finding.keywords)
        return sorted({finding.code for finding in findings})

    async def unserved(self, names: Collection[str]) -> list[str]:
        """Return the given names that no worker has ever served. A served name is looked up only once. Any other name
        is looked up again after `MIN_LIFE_S`."""
        others = [name for name in dict.fromkeys(names) if name not in self._served]
        now_s = self._clock.monotonic_s()
        asked = [
            name for name in others if now_s - self._unserved_at_s.get(name, float("-inf")) >= MIN_LIFE_S
        ]
        if not asked:
            return others
        # Renew the time of the previous results before the lookup. Other pushes then use the previous results until the
        # lookup ends.
        self._unserved_at_s.update((name, now_s) for name in asked if name in self._unserved_at_s)
        missing = set(await self._contracts.unserved(asked))
        if missing:
            missing -= await self._live_names(now_s)
        served = {name for name in asked if name not in missing}
        self._note_served(served)
        if len(self._unserved_at_s) + len(missing) > MAX_SERVED:
            self._unserved_at_s.clear()
        self._unserved_at_s.update(dict.fromkeys(missing, now_s))
        return [name for name in others if name not in served]

    async def _live_names(self, now_s: float) -> set[str]:
        """Return the names that registered workers serve. The store's list of served names may lack a name: a master of
        an older release did not add the names of its workers."""
        if now_s - self._live_at_s >= LIFE_S:
            self._live = {name for worker in await self._workers.all() for name in worker.spec.names}
            self._live_at_s = now_s
        return self._live

    def _note_served(self, names: Collection[str]) -> None:
        for name in names:
            self._unserved_at_s.pop(name, None)
        if len(self._served) + len(names) > MAX_SERVED:
            self._served.clear()
        self._served.update(names)

    async def misfits(self, spec: JobSpec) -> list[FieldError]:
        """Return the parts of the argument that do not fit the contracts in force, whether or not such a push is
        refused."""
        return [
            error
            for finding in await self._breaches([spec], [()])
            if finding.code == "invalid_argument"
            for error in finding.errors
        ]

    async def _breaches(
        self, specs: Sequence[JobSpec], locs: Sequence[tuple[str | int, ...]]
    ) -> list[ContractBreach]:
        known = [await self._look_up(spec.name, LIFE_S) for spec in specs]
        found = await self._judged(list(zip(specs, locs, known, strict=True)))
        # Before reporting a breach, read the contracts again: a worker may just have declared other ones.
        outdated = {}
        for n in found:
            again = await self._look_up(specs[n].name, MIN_LIFE_S)
            if again is not known[n]:
                outdated[n] = (specs[n], locs[n], again)
        judged_again = await self._judged(list(outdated.values())) if outdated else {}
        for place, n in enumerate(outdated):
            if place in judged_again:
                found[n] = judged_again[place]
            else:
                del found[n]
        return [found[n] for n in sorted(found)]

    async def _judged(
        self, pushes: Sequence[tuple[JobSpec, tuple[str | int, ...], _Known]]
    ) -> dict[int, ContractBreach]:
        """Return the breaches by the position of the push in `pushes`."""
        found = {
            n: ContractBreach(
                "unserved_name",
                spec.name,
                [FieldError((*loc, "name"), "no worker has ever served this name")],
            )
            for n, (spec, loc, known) in enumerate(pushes)
            if not known.is_served
        }
        judged = [n for n, (_, _, known) in enumerate(pushes) if known.is_served and known.schemas]
        if not judged:
            return found
        tasks = [JudgeTask(pushes[n][2].schemas, pushes[n][0].argument) for n in judged]
        for n, misfits in zip(judged, await self._judge.misfits(tasks), strict=True):
            spec, loc, _ = pushes[n]
            if misfits is UNJUDGED:
                found[n] = ContractBreach(
                    "unchecked_argument", spec.name, [FieldError((*loc, "argument"), _UNCHECKED)]
                )
            elif misfits:
                found[n] = _misfit_breach(spec.name, loc, misfits)
        return found

    async def _look_up(self, name: str, life_s: float) -> _Known:
        known = self._known.get(name)
        if known is not None and self._clock.monotonic_s() - known.at_s < life_s:
            return known
        async with self._lock:
            known = self._known.get(name)
            if known is not None and self._clock.monotonic_s() - known.at_s < life_s:
                return known
            at_s = self._clock.monotonic_s()
            found = await self.of(name)
            if len(self._known) >= MAX_NAMES:
                self._known.clear()
            known = self._known[name] = _Known(at_s, found.is_served, self._in_force(found))
            return known

    def _in_force(self, found: NameContracts) -> Mapping[str, str]:
        """Return the schemas of live workers. There may be several while workers of different releases run. If no
        worker is live, return the schema that was declared last. Return none if a live worker declared no schema."""
        told = [one for one in found.told if one.digest in found.live] if found.live else found.told[:1]
        if not told or any(one.contract.argument_schema is None for one in told) or "" in found.live:
            return {}
        texts = [one.contract.schema_text() for one in told]
        return {digest_of(text): text for text in texts}

    def _log(self, code: str, name: str, what: str) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._logged_s.get((code, name), float("-inf")) < LOG_EVERY_S:
            return
        if len(self._logged_s) >= MAX_NAMES:
            self._logged_s.clear()
        self._logged_s[code, name] = now_s
        logger.warning("%s: %s%s", name, code, f" ({what})" if what else "")


def _misfit_breach(name: str, loc: tuple[str | int, ...], misfits: Sequence[Misfit]) -> ContractBreach:
    errors = [FieldError((*loc, "argument", *misfit.path), misfit.message) for misfit in misfits]
    # Log only the keywords and paths: the values are job content.
    keywords = ", ".join(
        f"{'.'.join(map(str, ('argument', *misfit.path)))[:100]}: {misfit.keyword}" for misfit in misfits[:3]
    )
    return ContractBreach("invalid_argument", name, errors, keywords)


def _schemas_told(found: NameContracts) -> set[str]:
    return {one.contract.schema_text() for one in found.told if one.digest in found.live}


def _warnings(found: NameContracts) -> list[dict[str, str]]:
    warnings = []
    schemas = _schemas_told(found)
    if len(schemas) > 1:
        text = f"Live workers declare {len(schemas)} different schemas for this name."
        warnings.append({"code": "schemas_differ", "text": text})
    if schemas and "" in found.live:
        count = len(found.live[""])
        text = f"{count} of the live workers declare{'s' if count == 1 else ''} no contract for this name."
        warnings.append({"code": "contract_untold", "text": text})
    if not found.is_served:
        text = "No worker has ever served this name."
        warnings.append({"code": "unserved_name", "text": text})
    elif not found.live:
        text = "No live worker serves this name."
        warnings.append({"code": "no_live_worker", "text": text})
    return warnings
