"""The jobs of the site. `manage.py jq_worker` runs them."""

import contextlib
import html
import re
from itertools import chain

import httpx
from django.db import IntegrityError
from django.db.models import F

from examples.microblog.models import Account, FeedEntry, Follow, Link, Post
from worker_sdk import Discard
from worker_sdk.django import task

TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
MAX_PAGE_CHARS = 100_000


@task(timeout=20, max_retry=5)
def fetch_title(link_id: int) -> str:
    """Fetch the title of a linked page. If the site is down, the job is retried later."""
    link = Link.objects.filter(pk=link_id, post__is_deleted=False).first()
    if link is None:
        raise Discard("the post was deleted")
    answer = httpx.get(link.url, timeout=10, trust_env=False)
    answer.raise_for_status()
    found = TITLE.search(answer.text[:MAX_PAGE_CHARS])
    link.title = html.unescape(found[1]).strip()[:200] if found else ""
    link.save(update_fields=["title"])
    return str(link.title)


@task(timeout=600, keep_result=False)
def distribute(post_id: int) -> None:
    """Enqueue one job for each follower, and for each account that the post mentions."""
    post = Post.objects.filter(pk=post_id, is_deleted=False).first()
    if post is None:
        raise Discard("the post was deleted")
    followers = Follow.objects.filter(followed_id=post.author_id).values_list("follower_id", flat=True)
    mentioned = post.mentions.exclude(follows__followed_id=post.author_id).values_list("pk", flat=True)
    # Followers are read and jobs are sent in chunks. If this job is repeated after a crash, it enqueues all jobs again.
    # The repeated jobs create no second entries.
    receivers = chain(followers.iterator(chunk_size=10_000), mentioned)
    insert_into_feed.enqueue_many((post_id, owner_id) for owner_id in receivers)


# The priority is low: titles, and the distribution of the next post, should not wait for 100,000 of these jobs.
@task(priority=-10, timeout=30, max_retry=8, retry={"base_s": 0.5, "max_s": 60}, keep_result=False)
def insert_into_feed(post_id: int, owner_id: int) -> None:
    """Insert a post into one feed. If this fails, only this job is retried; the other feeds are not affected."""
    if not Post.objects.filter(pk=post_id, is_deleted=False).exists():
        raise Discard("the post was deleted")
    owner = Account.objects.filter(pk=owner_id).first()
    if owner is None:
        raise Discard("the account was deleted")
    if owner.faults_left:
        Account.objects.filter(pk=owner_id).update(faults_left=F("faults_left") - 1)
        raise OSError(f"the feed of {owner.name} cannot be written")
    # Use one statement without a transaction: it holds the lock of SQLite only while it runs. IntegrityError means that
    # the entry exists, or that the post was just deleted.
    with contextlib.suppress(IntegrityError):
        FeedEntry.objects.create(owner_id=owner_id, post_id=post_id)


@task(timeout=600, keep_result=False)
def remove_from_feeds(post_id: int) -> None:
    """Remove a deleted post from all feeds, and then delete its row."""
    Post.objects.filter(pk=post_id, is_deleted=True).delete()
