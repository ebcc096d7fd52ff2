"""Clients that others' generators make of the documents work against a live master.

The generators are no dependencies of ours. They are looked for on the PATH and in the folder that JQMASTER_GENERATORS names
(the `bin` of an environment with openapi-python-client and datamodel-code-generator); without them the tests are skipped.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.master import master_on
from tests.support.server import StoreServer

OPENAPI = Path(__file__).parents[2] / "openapi"

PUSH = """
import sys
from client import Client
from client.api.constraints import constraints_put
from client.api.jobs import jobs_enqueue, jobs_get
from client.models import Condition, ConditionOp, ConstraintRequest, JobRequest, Problem

with Client(base_url=sys.argv[1]) as client:
    pushed = jobs_enqueue.sync(client=client, body=JobRequest(name="work", priority=3))
    job = jobs_get.sync(pushed.id, client=client)
    assert (job.name, job.priority, job.state) == ("work", 3, "ready"), job
    refused = jobs_get.sync("unknown", client=client)
    assert isinstance(refused, Problem), refused
    assert refused.code == "unknown_job", refused
    limit = ConstraintRequest(matcher=Condition(field="name", op=ConditionOp.EQ, value="work"), concurrency=1)
    made = constraints_put.sync("one", client=client, body=limit)
    assert made.concurrency == 1, made
"""
READ = """
import sys
import httpx, models
http = httpx.Client(base_url=sys.argv[1], trust_env=False)
request = models.JobRequest(name="work", argument={"a": 1})
pushed = models.EnqueueAnswer.model_validate(http.post("/api/jobs", json=request.model_dump(exclude_unset=True)).json())
job = models.JobView.model_validate(http.get(f"/api/jobs/{pushed.id}").json())
assert (job.name, job.argument) == ("work", {"a": 1}), job
problem = models.Problem.model_validate(http.get("/api/jobs/unknown").json())
assert getattr(problem.code, "value", problem.code) == "unknown_job", problem
"""


def generator(name: str) -> str:
    folders = os.pathsep.join([os.environ.get("JQMASTER_GENERATORS", ""), os.environ.get("PATH", "")])
    found = shutil.which(name, path=folders)
    if found is None:
        pytest.skip(f"{name} is not on this machine; JQMASTER_GENERATORS may name its folder")
    return found


async def runs(program: str, store_server: StoreServer, folder: Path) -> None:
    """The program, beside what was generated, against a master."""
    (folder / "program.py").write_text(program)
    async with master_on(store_server.url) as (master, _):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "program.py",
            master.server.url,
            cwd=folder,
            env={**os.environ, "NO_PROXY": "*"},
            stderr=asyncio.subprocess.PIPE,
        )
        _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()


@pytest.mark.req("J11")
async def test_openapi_python_client(store_server: StoreServer, tmp_path: Path) -> None:
    made = subprocess.run(
        [generator("openapi-python-client"), "generate", "--path", str(OPENAPI / "jqmaster.yaml"),
         "--output-path", str(tmp_path / "client"), "--meta", "none"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    assert "will not be generated" not in made.stdout + made.stderr
    assert "Unable to" not in made.stdout + made.stderr
    await runs(PUSH, store_server, tmp_path)


@pytest.mark.req("J11")
async def test_datamodel_code_generator(store_server: StoreServer, tmp_path: Path) -> None:
    subprocess.run(
        [generator("datamodel-codegen"), "--input", str(OPENAPI / "jqmaster.yaml"), "--input-file-type", "openapi",
         "--output", str(tmp_path / "models.py"), "--output-model-type", "pydantic_v2.BaseModel"],
        check=True, capture_output=True,
    )  # fmt: skip
    await runs(READ, store_server, tmp_path)
