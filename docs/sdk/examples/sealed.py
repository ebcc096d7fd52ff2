# Shows: Seal, SealError
from worker_sdk import Seal, SealError, Tasks
from worker_sdk.testing import drain

old, new = Seal.new_key(), Seal.new_key()
tasks = Tasks(seal=Seal(keys={"2026a": old}, clear=["tenant"]))


@tasks.task("card.charge")
def charge(tenant: str, card: str) -> str:
    return f"{tenant} {card[-4:]}"


job = charge.to_job("acme", card="4111 1111 1111 1111")
assert job["argument"].keys() == {"sealed_with", "sealed", "tenant"}
[run] = drain([job])
assert run.result == "acme 1111"

# During a rotation, the new key seals, and both open.
both = Seal(keys={"2026b": new, "2026a": old})
assert both.opened(job["argument"], "argument", job.id) == {"tenant": "acme", "card": "4111 1111 1111 1111"}
try:
    Seal(keys={"2026b": new}).opened(job["argument"], "argument", job.id)
except SealError as exc:
    assert exc.key_id == "2026a"
