"""`jqmaster health`: the health of the queue in one sentence, with the likely cause and the next step."""

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.http import MasterSession

# The statuses in which nothing is broken.
_WELL = ("ok", "waiting")


def health(http: MasterSession) -> None:
    """Report the health of the queue: faults and waiting work, the likely cause, and the next step.

    Exit code 1 if something is broken or needs attention. Jobs that wait because of a limit or a pause do not
    count as broken.
    """
    verdict = http.get("/api/health")
    if not http.says_json(verdict):
        output.say(verdict["text"])
        if verdict["command"]:
            output.say(f"Next: {verdict['command']}")
        # The first line is the worst finding. If nothing is wrong, it says that all is well.
        told = 0 if verdict["status"] == "ok" else 1
        if others := verdict["findings"][told:]:
            print()
            output.show_table(
                ("ALSO", "FINDING", "NEXT"),
                [(one["severity"], one["text"], one["command"]) for one in others],
            )
    raise typer.Exit(exits.OK if verdict["status"] in _WELL else exits.FAILED)
