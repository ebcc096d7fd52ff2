"""A web application with a worker in it, whose process lives on after the end of its lifespan."""

import asyncio
import os
import signal
import sys
import time

from tests.sdk.handlers import worker


async def serve() -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with worker.running():
        await told.wait()


if __name__ == "__main__":
    worker.master = sys.argv[1]
    asyncio.run(serve())
    time.sleep(float(os.environ["LINGER_S"]))
