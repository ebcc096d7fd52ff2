# Shows: Unique, is_duplicate, is_replaced, Duplicate
import uuid

from worker_sdk import Duplicate, SyncPusher, Unique, is_duplicate, is_replaced

if __name__ == "__main__":
    key = f"user:{uuid.uuid4()}"
    with SyncPusher() as pusher:
        first = pusher.enqueue("report.make", {"user": 42}, unique=Unique(key=key), delay=3600)
        same = pusher.enqueue("report.make", {"user": 42}, unique=Unique(key=key, on_conflict="existing"))
        newer = pusher.enqueue("report.make", {"user": 43}, unique=Unique(key=key, on_conflict="replace"))
        assert same == newer == first
        assert is_duplicate(same) and is_replaced(newer)
        try:
            pusher.enqueue("report.make", {"user": 44}, unique=Unique(key=key))
        except Duplicate as refused:
            assert refused.job_id == first
