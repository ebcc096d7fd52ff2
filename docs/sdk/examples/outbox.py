# Shows: SqlAlchemyOutbox, outbox_table, Outbox, OutboxStats
import sqlalchemy as sa
from sqlalchemy.orm import Session

from worker_sdk import Tasks
from worker_sdk.outbox import Outbox, OutboxStats
from worker_sdk.outbox.sqlalchemy import SqlAlchemyOutbox, outbox_table

metadata = sa.MetaData()
engine = sa.create_engine("sqlite:///app.db")
table = outbox_table(metadata)  # `create_all` and Alembic know it then
metadata.create_all(engine)
tasks = Tasks()


@tasks.task("post.distribute")
def distribute(post_id: int) -> None: ...


def lag(outbox: Outbox) -> float:
    stats: OutboxStats = outbox.stats()
    return stats.lag_s if stats.waiting else 0.0


if __name__ == "__main__":
    outbox = SqlAlchemyOutbox(engine, table=table)
    with Session(engine) as session, outbox.transaction(session):
        distribute.enqueue(1)  # a job if, and only if, the transaction commits
    assert lag(outbox) == 0.0
    outbox.close()
    engine.dispose()
