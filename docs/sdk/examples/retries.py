# Shows: retry_on, discard_on, Retry, Defer, Discard, Fail, CodedError
import asyncio

from worker_sdk import CodedError, Context, Defer, Discard, Fail, Retry, Worker, discard_on, retry_on
from worker_sdk.testing import WorkerHarness

worker = Worker()


@worker.handler(
    "site.crawl",
    retry_on=retry_on(TimeoutError, wait=60, attempts=3),  # other exceptions follow the job's own retries
    discard_on=discard_on(LookupError),
    retry_codes=["BUSY"],
)
async def crawl(answer: str, ctx: Context) -> str:
    match answer:
        case "429":
            raise Defer(30, "the site asks for a pause")  # no retry is used
        case "503":
            raise Retry(after_s=120)  # a retry, after two minutes or more
        case "404":
            raise Discard("the page is gone")  # over, and no failure
        case "401":
            raise Fail("the password is wrong")  # over, and failed
        case "BUSY" | "BROKEN":
            raise CodedError(answer, "the site has a code for it")
    raise LookupError(answer)


async def main() -> None:
    harness = WorkerHarness(worker)
    types = {answer: (await harness.run("site.crawl", answer)).type for answer in ("429", "404", "none")}
    assert types == {"429": "deferred", "404": "discarded", "none": "discarded"}
    retried = {
        answer: (await harness.run("site.crawl", answer)).fields["should_retry"]
        for answer in ("503", "401", "BUSY", "BROKEN")
    }
    assert retried == {"503": True, "401": False, "BUSY": True, "BROKEN": False}


asyncio.run(main())
