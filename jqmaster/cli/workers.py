"""Commands about workers."""

from jqmaster.cli import output
from jqmaster.cli.http import DEFAULT_MASTER, JsonOption, Master, MasterOption, TokenOption


def list_workers(
    master: MasterOption = DEFAULT_MASTER, token: TokenOption = None, as_json: JsonOption = False
) -> None:
    """List the registered workers."""
    with Master(master, token) as http:
        _, answer = http.call("GET", "/api/workers")
    if as_json:
        for worker in answer["workers"]:
            output.say_json(worker)
        return
    output.show_table(
        ("ID", "STATE", "BUSY", "MAX", "NODE", "PID", "URL", "NAMES", "LAST SEEN"),
        (
            (w["id"], w["state"], w["busy"], w["max_jobs"], w["node_id"], w["pid"], w["url"], " ".join(w["names"]), w["last_seen_at"])
            for w in answer["workers"]
        ),
    )  # fmt: skip
