"""The owners of workers. A worker belongs to the token that registered it. A caller with another token becomes the
owner by a proof of the worker's secret."""

import hashlib
import hmac
import logging
from collections import OrderedDict
from typing import Final

from jqmaster.domain.identity.access import LOCAL, Principal
from jqmaster.domain.ids import is_id
from jqmaster.errors import FieldError, ForbiddenError
from jqmaster.store.workers.workers import WorkerStore

logger = logging.getLogger(__name__)

# Owners whose workers any token may take over: nobody, and the caller of a master without tokens.
_FREE: Final = ("", LOCAL)
# Maximum number of workers with a cached owner. The least recently seen worker is dropped first.
MAX_KNOWN: Final = 10_000


class WorkerOwners:
    """Checks the owners of workers. A cache limits the reads of the store to one per worker.

    If another master has assigned a worker to a new token, this master also accepts the former token until it drops the
    cached owner. This is safe: the same process has both tokens, and a revoked token is never accepted.
    """

    def __init__(self, workers: WorkerStore) -> None:
        self._workers = workers
        self._known: OrderedDict[str, str] = OrderedDict()

    def check_names(self, names: tuple[str, ...] | list[str], caller: Principal) -> None:
        """Raise ForbiddenError, which lists each name that the caller's token does not allow."""
        allows = caller.allows_name
        if allows is None:
            return
        errors = [
            FieldError(("names", index), "the token may not run jobs of this name")
            for index, name in enumerate(names)
            if not allows(name)
        ]
        if errors:
            raise ForbiddenError(
                "the token may not run jobs of these names", code="name_forbidden", errors=errors
            )

    async def check(self, worker_id: str, caller: Principal) -> None:
        """Raise ForbiddenError (`foreign_worker`) if the worker belongs to another caller.

        Accept a worker that does not exist, because the operation itself refuses it. Also accept a worker without an
        owner.
        """
        if self._remembers(worker_id, caller) or not is_id(worker_id):
            return
        found = await self._workers.owner(worker_id)
        if found is None or found.name in _FREE:
            return
        if found.name != caller.identity:
            raise _foreign_worker()
        self._remember(worker_id, caller)

    async def check_heartbeat(
        self, worker_id: str, caller: Principal, *, token: bytes, proof: str | None
    ) -> None:
        """Check the owner as `check` does. If the heartbeat has a valid proof of the worker's secret, make the caller
        the owner.

        A worker has no owner if a master of an earlier release registered it, or if it registered before the master had
        tokens. With its first heartbeat, such a worker gets the caller as its owner.
        """
        if self._remembers(worker_id, caller) or not is_id(worker_id):
            return
        found = await self._workers.owner(worker_id)
        if found is None:
            return
        if found.name != caller.identity:
            is_proved = proof is not None and hmac.compare_digest(
                proof.encode(), adoption_proof(found.secret, worker_id, token).encode()
            )
            if found.name not in _FREE and not is_proved:
                raise _foreign_worker()
            self.check_names(found.names, caller)
            if not await self._workers.adopt(worker_id, expected=found.name, owner=caller.identity):
                raise _foreign_worker()
            logger.warning(
                "worker %s now belongs to %s instead of %s",
                worker_id,
                caller.identity,
                found.name or "nobody",
            )
        self._remember(worker_id, caller)

    def _remembers(self, worker_id: str, caller: Principal) -> bool:
        if caller.name == LOCAL:
            return True
        if self._known.get(worker_id) != caller.identity:
            return False
        self._known.move_to_end(worker_id)
        return True

    def _remember(self, worker_id: str, caller: Principal) -> None:
        self._known[worker_id] = caller.identity
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)


def adoption_proof(secret: str, worker_id: str, token: bytes) -> str:
    """Return the proof that the caller with this token is the worker itself. The proof signs a text with line feeds. A
    worker's `/challenge` signs nonces for anybody, but a nonce has no line feed, so no nonce yields such a proof."""
    text = f"adopt\n{worker_id}\n{hashlib.sha256(token).hexdigest()}"
    return hmac.digest(secret.encode(), text.encode(), "sha256").hex()


def _foreign_worker() -> ForbiddenError:
    return ForbiddenError("the worker was registered with another token", code="foreign_worker")
