"""Save a post while its author waits. Jobs do everything else."""

import re

from django.conf import settings
from django.db import transaction

from examples.microblog.models import Account, FeedEntry, Link, Post, Tag
from examples.microblog.tasks import distribute, fetch_title, remove_from_feeds

MENTION = re.compile(r"(?<!\w)@(\w{1,30})")
TAG = re.compile(r"(?<!\w)#(\w{1,50})")
LINK = re.compile(r"https?://[^\s<>\"]{1,480}")


def save_post(author: Account, text: str) -> Post:
    """Save a post with its mentions, tags and links, and enqueue the jobs that fetch titles and fill feeds.

    The jobs are rows in the same transaction. If the transaction commits, the jobs run, even if a process dies. If it
    does not commit, there are no jobs.
    """
    with transaction.atomic():
        post = Post.objects.create(author=author, text=text)
        post.mentions.set(Account.objects.filter(name__in=MENTION.findall(text)))
        post.tags.set([Tag.objects.get_or_create(name=name.lower())[0] for name in set(TAG.findall(text))])
        # Show the post to its author at once, even if the followers have to wait.
        FeedEntry.objects.create(owner=author, post=post)
        for url in dict.fromkeys(LINK.findall(text)):
            if url.startswith(settings.CRAWL_BELOW):
                fetch_title.enqueue(Link.objects.create(post=post, url=url).pk)
        distribute.enqueue(post.pk)
    return post


def delete_post(post: Post) -> None:
    """Delete a post. Jobs that would still insert it into feeds notice this, and end as discarded."""
    with transaction.atomic():
        Post.objects.filter(pk=post.pk).update(is_deleted=True)
        remove_from_feeds.enqueue(post.pk)
