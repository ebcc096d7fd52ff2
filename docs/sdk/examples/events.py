# Shows: Event, SentEvent
from worker_sdk import Event, SentEvent, SyncPusher


def told(sent: SentEvent) -> str:
    return "known already" if sent.is_duplicate else f"started {len(sent.job_ids)} jobs"


if __name__ == "__main__":
    with SyncPusher() as pusher:
        paid = pusher.send_event("order.paid", {"order": 17}, dedupe_key="order-17-paid")
        again = pusher.send_event("order.paid", {"order": 17}, dedupe_key="order-17-paid")
        assert (told(paid), told(again)) == ("started 0 jobs", "known already")  # no definition matches
        pusher.send_events(Event("user.made", {"user": n}, source="shop") for n in range(3))
