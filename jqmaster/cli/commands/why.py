"""The command that explains why a job is not running."""

from typing import Any

from jqmaster.cli.commands.jobs import JobArgument
from jqmaster.cli.console import output
from jqmaster.cli.console.http import MasterSession, job_path


def why(http: MasterSession, job_id: JobArgument) -> None:
    """Explain why a job is not running, and what has to change first."""
    answer = http.get(job_path(job_id, "why"))
    if http.says_json(answer):
        return
    output.say(f"{job_id} is {answer['state']} (as of {answer['as_of']})")
    for verdict in answer["verdicts"]:
        output.say(f"- {verdict['text']}")
    if answer["constraints"]:
        print()
        output.show_table(
            ("CONSTRAINT", "KEY", "VALUE", "NOW", "RUNNING", "STARTS", "WAITING", "OPENS"),
            [_row(use) for use in answer["constraints"]],
        )


def _row(use: dict[str, Any]) -> tuple[object, ...]:
    rate = use["rate"]
    now = "passes" if use["passes"] else ", ".join(use["kinds"])
    return (
        use["name"],
        use["key"],
        use["key_value"],
        f"{now} (shadow)" if use["mode"] == "shadow" else now,
        "" if use["concurrency"] is None else f"{use['running']} of {use['concurrency']}",
        "" if rate is None else f"{use['starts']} of {rate['limit']} in {rate['period_s']:g} s",
        use["waiting"],
        use["opens_at"],
    )
