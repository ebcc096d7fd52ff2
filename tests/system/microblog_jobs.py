"""Tests of the jobs in examples/microblog with the test kit, without a master. They are a separate program, because a
process has only one Django. Its argument is a directory for the database.

It prints `ok` after each test.
"""

import os
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

from examples.microblog.outside import Pages

FOLLOWERS = 12


def main(directory: Path) -> None:
    outside = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=outside.serve_forever, daemon=True).start()
    os.environ.update(
        DJANGO_SETTINGS_MODULE="examples.microblog.settings",
        MICROBLOG_DATABASE=f"sqlite:///{directory / 'microblog.sqlite3'}",
        MICROBLOG_OUTSIDE=f"http://127.0.0.1:{outside.server_port}/",
    )
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    call_command("populate", followers=FOLLOWERS)
    for test in (
        a_post_reaches_its_followers_and_those_whom_it_mentions,
        a_feed_that_cannot_be_written_is_retried_alone,
        the_jobs_of_a_deleted_post_end_quietly,
        a_transaction_that_is_rolled_back_leaves_no_jobs,
    ):
        test()
        print("ok", test.__name__)
    outside.shutdown()


def a_post_reaches_its_followers_and_those_whom_it_mentions() -> None:
    from django.conf import settings

    from examples.microblog.models import Account, FeedEntry, Link
    from examples.microblog.posting import save_post
    from examples.microblog.tasks import distribute, fetch_title, insert_into_feed
    from worker_sdk.django.worker import django_worker
    from worker_sdk.testing import drain, recording

    ada, grace = (Account.objects.get(name=name) for name in ("ada", "grace"))
    page = f"{settings.CRAWL_BELOW}tea"
    with recording() as jobs:
        post = save_post(ada, f"Tea for @grace, see {page} and http://elsewhere.invalid/x")
        assert sorted(job["name"] for job in jobs) == [
            distribute.module_path, fetch_title.module_path,
        ]  # fmt: skip
        # The author sees the post before any job has run.
        assert list(FeedEntry.objects.values_list("owner", "post")) == [(ada.pk, post.pk)]
        runs = drain(jobs, worker=django_worker(relays=False))
    assert {run.state for run in runs} == {"succeeded"}
    inserts = [run for run in runs if run.job["name"] == insert_into_feed.module_path]
    assert len(inserts) == FOLLOWERS + 1
    assert {run.job["priority"] for run in inserts} == {10}
    owners = set(FeedEntry.objects.filter(post=post).values_list("owner", flat=True))
    assert owners == {ada.pk, grace.pk, *ada.followers.values_list("follower", flat=True)}
    assert Link.objects.get(post=post).title == "All about tea"
    # A job that runs again does not make a second entry.
    with recording() as jobs:
        insert_into_feed.enqueue(post.pk, grace.pk)
        (again,) = drain(jobs, worker=django_worker(relays=False))
    assert (again.state, FeedEntry.objects.filter(owner=grace).count()) == ("succeeded", 1)


def a_feed_that_cannot_be_written_is_retried_alone() -> None:
    from examples.microblog.models import Account, FeedEntry
    from examples.microblog.posting import save_post
    from worker_sdk.django.worker import django_worker
    from worker_sdk.testing import drain, recording

    Account.objects.filter(name="reader7").update(faults_left=2)
    with recording() as jobs:
        post = save_post(Account.objects.get(name="ada"), "Tea again")
        runs = drain(jobs, worker=django_worker(relays=False))
    assert {run.state for run in runs} == {"succeeded"}
    assert sorted(run.attempts for run in runs) == [1] * FOLLOWERS + [3]
    assert FeedEntry.objects.filter(post=post, owner__name="reader7").exists()


def the_jobs_of_a_deleted_post_end_quietly() -> None:
    from examples.microblog.models import Account, FeedEntry, Post
    from examples.microblog.posting import delete_post, save_post
    from examples.microblog.tasks import insert_into_feed, remove_from_feeds
    from worker_sdk.django.worker import django_worker
    from worker_sdk.testing import drain, recording

    with recording() as jobs:
        post = save_post(Account.objects.get(name="ada"), "A mistake")
        post_id = post.pk
        insert_into_feed.enqueue(post_id, Account.objects.get(name="reader1").pk)
        delete_post(post)
        runs = drain(jobs, worker=django_worker(relays=False))
    states = {run.job["name"]: run.state for run in runs}
    assert states.pop(remove_from_feeds.module_path) == "succeeded"
    assert set(states.values()) == {"discarded"}
    assert len(states) == 2
    assert not Post.objects.filter(pk=post_id).exists()
    assert not FeedEntry.objects.filter(post=post_id).exists()


def a_transaction_that_is_rolled_back_leaves_no_jobs() -> None:
    from django.db import transaction

    from examples.microblog.models import Account, Post
    from examples.microblog.posting import save_post
    from worker_sdk.testing import recording

    before = Post.objects.count()
    with recording() as jobs:
        try:
            with transaction.atomic():
                save_post(Account.objects.get(name="ada"), "Never said")
                raise LookupError
        except LookupError:
            pass
        assert not jobs
    assert Post.objects.count() == before


if __name__ == "__main__":
    main(Path(sys.argv[1]))
