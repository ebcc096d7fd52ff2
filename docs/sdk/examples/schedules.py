# Shows: DefinitionOptions
from worker_sdk import Tasks
from worker_sdk.tasks.scheduled import DefinitionOptions

tasks = Tasks()
CAREFUL: DefinitionOptions = {"overlap": "forbid", "catch_up": "latest", "skip_late_after": 600}


@tasks.every(minutes=15, **CAREFUL)
@tasks.task("stock.refresh")
def refresh() -> None: ...


@tasks.task("report.send")
def send(kind: str) -> None: ...


tasks.cron("30 2 * * *", tz="Asia/Tokyo", name="nightly-report", arguments={"kind": "daily"})(send)

# `jqmaster apply MODULE:tasks` creates them at the master.
assert set(tasks.definitions()) == {"stock.refresh", "nightly-report"}
