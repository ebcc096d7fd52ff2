"""The test kit records the namespace that a call names."""

import pytest

from worker_sdk import Tasks
from worker_sdk.testing import inline, recording

tasks = Tasks()


@tasks.task("mail.send")
def send(to: str) -> None:
    pass


@pytest.mark.req("D29", "S9")
def test_a_recorded_job_has_the_namespace_of_its_call() -> None:
    with recording() as jobs:
        send.using(namespace="mail", priority=2).enqueue("ada")
        send.enqueue("bob")
    there, here = jobs.of(send, to="ada")[0], jobs.only(send, to="bob")
    assert there.options == {"priority": 2, "namespace": "mail"}
    assert "namespace" not in there
    assert "namespace" not in here.options
    with inline() as ran:
        send.using(namespace="mail").enqueue("ada")
    assert ran.only(send).options["namespace"] == "mail"
