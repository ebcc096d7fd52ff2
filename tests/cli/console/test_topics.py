"""`jqmaster help variables`: it lists every variable that there is."""

from jqmaster.cli.console.topics import TOPICS, VARIABLES
from worker_sdk.command_line.options import OPTIONS
from worker_sdk.transport.variables import CLIENT_NAMES, PREFIX

# Variables that nobody sets by hand: a worker sets them for the processes that it starts.
SET_BY_WORKERS = {"JOB_ID", "RELOADED"}
# The file of masters, and a setting of Django.
OTHERS = {"CONFIG", "UI"}


def test_every_variable_of_commands_workers_and_pushers_is_listed_once() -> None:
    listed = [name for one in VARIABLES for name in one.names]
    assert sorted(listed) == sorted(PREFIX + name for name in CLIENT_NAMES - SET_BY_WORKERS - OTHERS)


def test_a_variable_of_an_option_is_listed_with_the_option() -> None:
    by_name = {name: one.option for one in VARIABLES for name in one.names}
    assert {one.variable: one.flag for one in OPTIONS if one.variable}.items() <= by_name.items()
    page = TOPICS["variables"]()
    assert "JQMASTER_WORKER_HOST  (--host)\n      Address to listen on." in page
    assert "JQMASTER_WORKER_PULL  (--pull)" in page
