# Shows: SqlAlchemyConnections
import sqlalchemy as sa
from sqlalchemy.orm import scoped_session, sessionmaker

from worker_sdk import Tasks, Worker
from worker_sdk.middleware import SqlAlchemyConnections
from worker_sdk.testing import inline

engine = sa.create_engine("sqlite://", connect_args={"check_same_thread": False})
session = scoped_session(sessionmaker(engine))
tasks = Tasks()


@tasks.task("answer.read", keep_result=True)
def read() -> int:
    return int(session.execute(sa.text("SELECT 42")).scalar_one())


# After each attempt the session of its thread is removed; the engine is disposed of at the end.
worker = Worker(tasks=tasks, middleware=[SqlAlchemyConnections(session, engine)])
with inline(worker=worker):
    assert read.enqueue().get() == 42
