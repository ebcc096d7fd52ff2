# Shows: Relay, AsyncRelay, OutboxRelay, Done
import sqlalchemy as sa
from sqlalchemy.orm import Session

from worker_sdk import Tasks, Worker
from worker_sdk.outbox import AsyncRelay, OutboxRelay, Relay
from worker_sdk.outbox.sqlalchemy import SqlAlchemyOutbox
from worker_sdk.outbox.steps import Done

engine = sa.create_engine("sqlite:///relay.db")
outbox = SqlAlchemyOutbox(engine, is_direct=False)  # the relay alone pushes
tasks = Tasks()


@tasks.task("mail.receipt")
def send(order: int) -> None: ...


worker = Worker(tasks=tasks, middleware=[OutboxRelay(outbox)])  # or `jqmaster outbox`, or one of your own:


async def relay(async_outbox: SqlAlchemyOutbox) -> None:  # of an AsyncEngine
    await AsyncRelay(async_outbox).run()


if __name__ == "__main__":
    outbox.create_table()
    with Session(engine) as session, outbox.transaction(session):
        send.enqueue(7)
    done: Done | None = Relay(outbox).run_once()  # `run()` goes on until it is stopped
    assert done is not None and done.pushed == 1
    outbox.close()
    engine.dispose()
