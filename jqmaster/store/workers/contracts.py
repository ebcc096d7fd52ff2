"""The names that workers have ever served, and the contracts that they reported for these names."""

import logging
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.workers.contract import Contract
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.link.pages import pages
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard

logger = logging.getLogger(__name__)

# Maximum number of names that are remembered. The most recently served names are kept.
MAX_NAMES: Final = 10_000
# Maximum number of contracts that are kept for one name. The latest are kept.
MAX_CONTRACTS: Final = 10
# A contract is removed if no worker has reported it for this long.
LIFE_MS: Final = 30 * 86_400_000
_NAMES_PER_CALL: Final = 100
_NAMES_PER_READ: Final = 1_000
_TIME: Final = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class ReportedContract:
    """A contract, with the store time at which a worker last reported it."""

    digest: str
    reported_at_ms: int
    contract: Contract


class ContractStore:
    """Contracts of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    async def declare(self, names: Sequence[str], contracts: Mapping[str, Contract]) -> None:
        """Record that a worker serves these names, with these contracts."""
        for page in pages(names, _NAMES_PER_CALL):
            args: list[Arg] = [
                self._shard.now_arg, self._keys.contracts_prefix, LIFE_MS, MAX_NAMES, MAX_CONTRACTS,
            ]  # fmt: skip
            for name in page:
                contract = contracts.get(name)
                args += (name, contract.digest, contract.text()) if contract else (name, "", "")
            await self._client.run("tell_contracts", (self._keys.served_names,), args)

    async def remove(self, name: str, audit_entry: bytes) -> bool:
        """Remove the contracts of a name; return whether it had any."""
        word, _ = await self._client.run(
            "remove_contracts",
            (self._keys.contracts(name), self._keys.audit),
            (self._shard.now_arg, audit_entry, MAX_ENTRIES),
        )
        return word == "ok"

    async def of(self, name: str) -> tuple[list[ReportedContract], bool]:
        """Return the contracts of a name, the last reported one first, and whether the name was ever served."""
        flat, served = await self._client.pipeline(
            [("HGETALL", self._keys.contracts(name)), ("ZSCORE", self._keys.served_names, name)]
        )
        told = []
        for digest, packed in zip(flat[::2], flat[1::2], strict=True):
            try:
                (reported_at_ms,) = _TIME.unpack_from(packed)
                told.append(
                    ReportedContract(digest.decode(), reported_at_ms, Contract.of_text(packed[_TIME.size :]))
                )
            except (struct.error, ValueError, KeyError, TypeError):
                logger.error("a contract of %s cannot be read", name)
        return sorted(told, key=lambda one: (-one.reported_at_ms, one.digest)), served is not None

    async def unserved(self, names: Collection[str]) -> list[str]:
        """Return the names among these that no worker has ever served. Return an empty collection if this is unknown,
        because names were removed when there were too many.
        """
        found: list[str] = []
        for page in pages(list(names), _NAMES_PER_READ):
            # Read each score with ZSCORE, because users of the store that older releases created have no right to
            # ZMSCORE.
            count, *scores = await self._client.pipeline(
                [
                    ("ZCARD", self._keys.served_names),
                    *(("ZSCORE", self._keys.served_names, name) for name in page),
                ]
            )
            if count >= MAX_NAMES:
                return []
            found += [name for name, score in zip(page, scores, strict=True) if score is None]
        return found
