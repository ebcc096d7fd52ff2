# Shows: JobLogs, JobContextFilter, JsonFormatter
import io
import json
import logging

from worker_sdk import Tasks, Worker
from worker_sdk.middleware import JobContextFilter, JobLogs, JsonFormatter
from worker_sdk.testing import inline

output = io.StringIO()
handler = logging.StreamHandler(output)
handler.setFormatter(JsonFormatter())
handler.addFilter(JobContextFilter())  # `JobLogs` adds it, too: to the handlers that it is given
shop = logging.getLogger("shop")
shop.setLevel(logging.INFO)
shop.addHandler(handler)

tasks = Tasks()


@tasks.task("order.pack")
def pack(order: int) -> None:
    shop.info("packing", extra={"order": order})


worker = Worker(tasks=tasks, middleware=[JobLogs([handler])])
with inline(worker=worker):
    pack.enqueue(7)
line = json.loads(output.getvalue().splitlines()[0])
assert (line["message"], line["order"], line["job_name"]) == ("packing", 7, "order.pack")
shop.removeHandler(handler)
