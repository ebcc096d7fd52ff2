"""The story of the example: a post that goes to all followers, a feed that fails, and a post that is deleted."""

import time
from collections.abc import Callable
from typing import Any

import httpx
from django.db.models import Max, Min

from examples.microblog.models import Account, FeedEntry, Link, Post
from examples.microblog.system import Site
from examples.microblog.visitor import Visitor

# If nothing has happened for this long, something is broken, even on a busy machine.
PATIENCE_S = 60.0
TELL_EVERY_S = 30.0
UNFINISHED = ("scheduled", "ready", "retrying", "running")


def tell(site: Site, followers: int, say: Callable[[str], None]) -> list[str]:
    """Post, watch and describe what happens. Return the deviations from the expected story."""
    return [
        *tell_of_a_post(site, followers, say),
        *tell_of_a_deleted_post(site, max(1, followers // 10), say),
    ]


def tell_of_a_post(site: Site, followers: int, say: Callable[[str], None]) -> list[str]:
    """Post as ada, and wait until every follower has it. One feed fails twice meanwhile."""
    faults = []
    troubled = Account.objects.get(name="reader7")
    Account.objects.filter(pk=troubled.pk).update(faults_left=2)
    with Visitor(site.url, "ada") as ada:
        text = f"Hello #World, and @grace! See {site.outside_url}/jqmaster"
        took_s = ada.post(text)
        is_seen = "Hello #World" in ada.feed()
    post = Post.objects.get(author__name="ada")
    say(f"ada posts: the request takes {took_s * 1000:.0f} ms")
    if not is_seen:
        faults.append("ada does not see the post at once")
    if [tag.name for tag in post.tags.all()] != ["world"] or [one.name for one in post.mentions.all()] != [
        "grace"
    ]:
        faults.append("mentions and tags are not saved with the post")

    entries = FeedEntry.objects.filter(post=post).exclude(owner=post.author)
    mentioned = 1  # only grace: she is mentioned, and does not follow ada
    if not until_there_are(followers + mentioned, entries.count, site, say):
        faults.append(f"{entries.count()} of {followers} followers have the post")
    found = entries.exclude(owner__name="grace").aggregate(first=Min("added_at"), last=Max("added_at"))
    own = entries.filter(owner=troubled).first()
    if found["first"] is None or own is None:
        return [*faults, "reader7 has not got the post"]
    first_s, last_s = ((found[which] - post.created_at).total_seconds() for which in ("first", "last"))
    say(f"  the first follower has it after {first_s:.2f} s")
    say(f"  the last follower has it after {last_s:.1f} s: {followers / last_s:,.0f} jobs/s")
    own_s = (own.added_at - post.created_at).total_seconds()
    say(f"  {troubled.name}, whose feed fails twice, has it after {own_s:.1f} s; nobody else waited for that")
    if not until(lambda: Link.objects.exclude(title="").filter(post=post).exists(), site):
        return [*faults, "the title of the link is missing"]
    say(f"  the link is titled {Link.objects.get(post=post).title!r}")
    return faults


def tell_of_a_deleted_post(site: Site, followers: int, say: Callable[[str], None]) -> list[str]:
    """Post as grace, and delete the post while it is still being distributed."""
    before = counts(site)
    with Visitor(site.url, "grace") as grace:
        grace.post("A post with a mistake")
        post = Post.objects.get(author__name="grace")
        entries = FeedEntry.objects.filter(post=post).exclude(owner=post.author)
        until(entries.exists, site)
        had = entries.count()
        took_s = grace.delete(post.pk)
    if not until_none_is_left(lambda: sum(counts(site)[state] for state in UNFINISHED), site):
        return ["jobs are left over"]
    after = counts(site)
    quiet, failed = (after[state] - before[state] for state in ("discarded", "failed"))
    say(f"grace posts, and deletes it when {had} of {followers:,} followers have it: {took_s * 1000:.0f} ms")
    say(f"  {quiet} jobs find it deleted and end quietly, {failed} fail")
    is_gone = not Post.objects.filter(pk=post.pk).exists() and not entries.exists()
    return [
        *([] if is_gone else ["the deleted post is still there"]),
        *([f"{failed} jobs failed"] if failed else []),
    ]


def counts(site: Site) -> dict[str, Any]:
    """Return the number of jobs in each state."""
    answer = httpx.get(
        f"{site.master_url}/api/jobs?limit=1",
        headers={"Accept": "application/json"},
        trust_env=False,
        timeout=60,
    )
    found: dict[str, Any] = answer.json()["counts"]
    return found


def until(is_so: Callable[[], bool], site: Site) -> bool:
    """Wait until the condition holds, and return whether it does."""
    return until_none_is_left(lambda: int(not is_so()), site)


def until_there_are(wanted: int, count: Callable[[], int], site: Site, say: Callable[[str], None]) -> bool:
    """Wait until `count` returns the number `wanted`, and report the number from time to time. Return whether it was
    reached."""
    began_s = told_s = time.monotonic()

    def left() -> int:
        nonlocal told_s
        found = count()
        if time.monotonic() - told_s > TELL_EVERY_S:
            told_s = time.monotonic()
            say(f"  {found:,} feeds have it after {told_s - began_s:.0f} s")
        return wanted - found

    return until_none_is_left(left, site)


def until_none_is_left(left: Callable[[], int], site: Site) -> bool:
    """Wait until `left` returns 0, and return True. Return False if the number has not changed for a minute."""
    found, looked_s = left(), time.monotonic()
    changed_s = looked_s
    while found > 0:
        site.check_alive()
        if time.monotonic() - changed_s > PATIENCE_S:
            return False
        # Check rarely, because counting takes time away from the jobs.
        time.sleep(max(0.2, 10 * (time.monotonic() - looked_s)))
        looked_s = time.monotonic()
        if (now := left()) != found:
            found, changed_s = now, time.monotonic()
    return True
