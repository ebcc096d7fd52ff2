# Shows: Debounce
from worker_sdk import Debounce, SyncPusher

if __name__ == "__main__":
    settled = Debounce(wait_s=30, max_s=300, key="index:articles")
    with SyncPusher() as pusher:
        ids = [pusher.enqueue("index.build", {"upto": n}, debounce=settled) for n in range(3)]
        assert len(set(ids)) == 1  # one job, which has the newest argument and waits 30 s
        pusher.cancel(ids[0])
