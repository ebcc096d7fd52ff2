"""Clients that others' generators make of the documents work against a live master.

jqmaster does not depend on the generators. The tests look for them on the PATH and in the folders that
JQMASTER_GENERATORS names, separated as in PATH, and are skipped without them:

- the `bin` of a Python environment with openapi-python-client, datamodel-code-generator and openapi-generator-cli (the
  latter needs Java),
- the `node_modules/.bin` of a folder with openapi-typescript, openapi-fetch, typescript and @types/node.
"""

import asyncio
import json
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
TYPESCRIPT_FETCH = """
import { Configuration, ConstraintsApi, JobsApi, ResponseError } from "./client/index.js";

const configuration = new Configuration({ basePath: process.argv[2] });
const jobs = new JobsApi(configuration);
const pushed = await jobs.jobsEnqueue({ jobRequest: { name: "work", priority: 3, argument: { a: [1, "b"] } } });
const job = await jobs.jobsGet({ jobId: pushed.id });
if (job.state !== "ready" || job.priority !== 3) throw new Error(JSON.stringify(job));
const refused = await jobs.jobsGet({ jobId: "unknown" }).catch((error: ResponseError) => error.response.json());
if (refused.code !== "unknown_job") throw new Error(JSON.stringify(refused));
const made = await new ConstraintsApi(configuration).constraintsPut({
  name: "one",
  constraintRequest: { matcher: { field: "name", op: "eq", value: "work" }, concurrency: 1 },
});
if (made.concurrency !== 1) throw new Error(JSON.stringify(made));
"""
OPENAPI_FETCH = """
import createClient from "openapi-fetch";
import type { paths } from "./client/schema.js";

const client = createClient<paths>({ baseUrl: process.argv[2] });
const pushed = await client.POST("/api/jobs", { body: { name: "work", priority: 3, argument: { a: [1, "b"] } } });
if (!pushed.data) throw new Error(JSON.stringify(pushed.error));
const job = await client.GET("/api/jobs/{job_id}", { params: { path: { job_id: pushed.data.id } } });
if (job.data?.state !== "ready" || job.data.priority !== 3) throw new Error(JSON.stringify(job));
const refused = await client.GET("/api/jobs/{job_id}", { params: { path: { job_id: "unknown" } } });
if (refused.error?.code !== "unknown_job") throw new Error(JSON.stringify(refused));
const made = await client.PUT("/api/constraints/{name}", {
  params: { path: { name: "one" } },
  body: { matcher: { field: "name", op: "eq", value: "work" }, concurrency: 1 },
});
if (made.data?.concurrency !== 1) throw new Error(JSON.stringify(made));
"""
TSCONFIG = {
    "compilerOptions": {
        "target": "es2022",
        "module": "nodenext",
        "strict": True,
        "skipLibCheck": True,
        "types": ["node"],
        "outDir": "out",
        "rootDir": ".",
    },
    "include": ["program.ts"],
}


def generator(name: str) -> str:
    folders = os.pathsep.join([os.environ.get("JQMASTER_GENERATORS", ""), os.environ.get("PATH", "")])
    found = shutil.which(name, path=folders)
    if found is None:
        pytest.skip(f"{name} is not on this machine; JQMASTER_GENERATORS may name its folder")
    return found


async def runs(store_server: StoreServer, folder: Path, *command: str) -> None:
    """The command, beside what was generated and with the address of a master as its last argument, ends well."""
    async with master_on(store_server.url) as (master, _):
        process = await asyncio.create_subprocess_exec(
            *command,
            master.server.url,
            cwd=folder,
            env={**os.environ, "NO_PROXY": "*"},
            stderr=asyncio.subprocess.PIPE,
        )
        _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()


async def runs_python(program: str, store_server: StoreServer, folder: Path) -> None:
    (folder / "program.py").write_text(program)
    await runs(store_server, folder, sys.executable, "program.py")


async def runs_typescript(program: str, store_server: StoreServer, folder: Path) -> None:
    """The program compiles under strict types, and runs."""
    compiler, node = generator("tsc"), generator("node")
    (folder / "node_modules").symlink_to(Path(compiler).parents[1])
    (folder / "package.json").write_text(json.dumps({"type": "module"}))
    (folder / "tsconfig.json").write_text(json.dumps(TSCONFIG))
    (folder / "program.ts").write_text(program)
    compiled = subprocess.run([compiler], cwd=folder, check=False, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stdout
    await runs(store_server, folder, node, "out/program.js")


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
    await runs_python(PUSH, store_server, tmp_path)


@pytest.mark.req("J11")
async def test_datamodel_code_generator(store_server: StoreServer, tmp_path: Path) -> None:
    subprocess.run(
        [generator("datamodel-codegen"), "--input", str(OPENAPI / "jqmaster.yaml"), "--input-file-type", "openapi",
         "--output", str(tmp_path / "models.py"), "--output-model-type", "pydantic_v2.BaseModel"],
        check=True, capture_output=True,
    )  # fmt: skip
    await runs_python(READ, store_server, tmp_path)


@pytest.mark.req("J11")
async def test_typescript_fetch(store_server: StoreServer, tmp_path: Path) -> None:
    made = subprocess.run(
        [generator("openapi-generator-cli"), "generate", "-g", "typescript-fetch", "-i", str(OPENAPI / "jqmaster.yaml"),
         "-o", str(tmp_path / "client"), "--additional-properties", "importFileExtension=.js"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    await runs_typescript(TYPESCRIPT_FETCH, store_server, tmp_path)


@pytest.mark.req("J11")
async def test_openapi_typescript(store_server: StoreServer, tmp_path: Path) -> None:
    """The option leaves fields with a default optional: without it, a request must name them all."""
    made = subprocess.run(
        [generator("openapi-typescript"), str(OPENAPI / "jqmaster.yaml"), "--default-non-nullable=false",
         "-o", str(tmp_path / "client" / "schema.d.ts")],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    await runs_typescript(OPENAPI_FETCH, store_server, tmp_path)
