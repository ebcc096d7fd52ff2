"""Register a worker at a master. Repeat the call until a master accepts it."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from worker_sdk.masters.blocking_client import BlockingClient
from worker_sdk.masters.masters import MasterAnswer, MasterUnreachableError, pause_s
from worker_sdk.transport.namespaces import namespace_of
from worker_sdk.wire import encode
from worker_sdk.worker import health_file
from worker_sdk.worker.heartbeat_answer import NONSENSE, TOO_MUCH, refused_fields
from worker_sdk.worker.identity import WorkerIdentity
from worker_sdk.worker.lease import StoreClock, now_s
from worker_sdk.worker.refusals import GIVE_UP_S, REPEAT_S, advice

if TYPE_CHECKING:
    from worker_sdk.protocol import RegisterAnswer, RegisterRequest

logger = logging.getLogger(__name__)

_REGISTER_TIMEOUT_S: Final = 10.0
# How often to check whether the jobs of the previous membership have ended.
_JOIN_PAUSE_S: Final = 0.05


class WorkerRegistration:
    """The registration of a worker.

    * `may_join`: returns whether a registration is safe. A registration ends the leases of the former registration at
      the same address at once. So no job of the former registration may still run here.
    * `fields`: the fields of the registration, except the secret, the place and the contracts.
    * `secret()`: returns the secret to register; called before each try.
    * `place()`: returns the place (see Place); called before each registration.
    * `contracts`: the contracts of the worker's names.
    * `on_rejected`: called once when masters keep refusing the token of a worker that was never registered.
    """

    def __init__(
        self,
        *,
        client: BlockingClient,
        identity: WorkerIdentity,
        clock: StoreClock,
        may_join: Callable[[], bool],
        fields: Mapping[str, Any],
        secret: Callable[[], str],
        place: Callable[[], str] = lambda: "",
        contracts: Mapping[str, Any] | None = None,
        on_rejected: Callable[[MasterAnswer], object] = lambda answer: None,
    ) -> None:
        self._client = client
        self._identity = identity
        self._clock = clock
        self._may_join = may_join
        self._fields = fields
        self._secret = secret
        self._place = place
        self._contracts = contracts or {}
        self._on_rejected = on_rejected
        self._masters_take_place = True
        self._complaint, self._complained_s = "", float("-inf")
        self._was_registered = False
        self._rejected_since_s: float | None = None

    def attempt(self, tries: int) -> float | None:
        """Register. Return the seconds until the first heartbeat or the next try. None stands for the usual pause after
        a failure.
        """
        if not self._may_join():
            return _JOIN_PAUSE_S
        sent_s = now_s()
        try:
            answer = self._client.call(
                "POST", "/api/workers", encode(self._described()), timeout_s=_REGISTER_TIMEOUT_S
            )
        except MasterUnreachableError as exc:
            self._log_once(f"no master answers ({exc})")
            return None
        if not answer.is_ok:
            if self._masters_take_place and ["place"] in refused_fields(answer):
                # This master is too old to know `place`. Register without it.
                self._masters_take_place = False
                return _JOIN_PAUSE_S
            refused = [loc for loc in refused_fields(answer) if loc[:1] == ["contracts"]]
            if self._leave_out_contracts([["contracts"]] if answer.code in TOO_MUCH else refused):
                logger.warning("registering without contracts that the master refused: %s", answer)
                return _JOIN_PAUSE_S
            # Do not complain about the first refusals of the address: the server may not be listening yet.
            hint = advice(answer, self._fields["url"], self._client.masters.current)
            if answer.code != "address_unverified" or tries >= 3:
                self._log_once(f"a master refused the registration: {answer}{hint}")
            self._note_rejection(answer, hint, sent_s)
            return pause_s(tries + 1, answer.retry_after_s) if answer.retry_after_s else None
        body = cast("RegisterAnswer", answer.body)
        try:
            self._clock.observe(int(body["store_time_ms"]), sent_s, now_s())
            member = self._identity.joined(body)
        except NONSENSE as exc:
            self._log_once(f"a master's answer is not valid ({exc!r})")
            return None
        affinity = self._client.masters.affinity
        # For the length of a lease, a master of the former store may still answer.
        affinity.patience_s = max(affinity.patience_s, member.lease_s)
        self._complaint = ""
        self._was_registered = True
        health_file.touch()
        namespace = namespace_of(self._client.masters.current)
        where = f" in namespace {namespace}" if namespace else ""
        logger.info("registered as worker %s%s", self._identity.worker_id, where)
        return 0.0

    def _leave_out_contracts(self, refused: Sequence[Sequence[Any]]) -> bool:
        """Omit the contracts at these paths from now on, and return whether that changed anything. Jobs can run without
        contracts."""
        names = {str(loc[1]) for loc in refused if len(loc) > 1} & self._contracts.keys()
        if any(len(loc) == 1 for loc in refused):  # for example, a master that does not know contracts
            names = set(self._contracts)
        self._contracts = {name: one for name, one in self._contracts.items() if name not in names}
        return bool(names)

    def _described(self) -> "RegisterRequest":
        described: dict[str, Any] = {**self._fields, "secret": self._secret()}
        if self._contracts:
            described["contracts"] = self._contracts
        if self._masters_take_place and (place := self._place()):
            described["place"] = place
        return cast("RegisterRequest", described)

    def _log_once(self, text: str) -> None:
        """Log each failure once, and again after a while, but not at each retry."""
        if text != self._complaint or now_s() - self._complained_s >= REPEAT_S:
            self._complaint, self._complained_s = text, now_s()
            logger.warning("not registered yet, and trying again: %s", text)

    def _note_rejection(self, answer: MasterAnswer, hint: str, sent_s: float) -> None:
        """Give up if the token of a worker that was never registered keeps being refused. A worker that was registered
        before keeps trying, because its token may be about to be replaced."""
        if answer.status not in (401, 403) or self._was_registered:
            self._rejected_since_s = None
            return
        if self._rejected_since_s is None:
            self._rejected_since_s = sent_s
        elif now_s() - self._rejected_since_s >= GIVE_UP_S:
            self._rejected_since_s = None
            logger.error("no master accepts this worker: %s%s", answer, hint)
            self._on_rejected(answer)
