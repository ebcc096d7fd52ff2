# Shows: Pusher
import asyncio

from worker_sdk import Pusher, make_job


async def main() -> None:
    async with Pusher() as pusher:  # JQMASTER_URL; one for the life of the application
        job_id = await pusher.enqueue("mail.send", {"user_id": 42}, priority=-5, delay=3600)
        ids = await pusher.enqueue_many(make_job("mail.send", {"user_id": n}, delay=3600) for n in range(100))
        await pusher.cancel(job_id)
        status = await pusher.status(job_id)
        assert status is not None and status["state"] == "canceled"
        assert len(ids) == 100


if __name__ == "__main__":
    asyncio.run(main())
