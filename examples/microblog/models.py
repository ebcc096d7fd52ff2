"""The tables: accounts and who follows whom, posts, and the feed of each account."""

from django.db import models


class Account(models.Model):
    """Somebody who posts and reads posts."""

    name = models.CharField(max_length=30, unique=True)
    # How many more times writing to this account's feed fails, so that you can watch retries.
    faults_left = models.PositiveSmallIntegerField(default=0)

    def __str__(self) -> str:
        return str(self.name)


class Follow(models.Model):
    """One account that follows another one."""

    follower = models.ForeignKey(Account, models.CASCADE, related_name="follows")
    followed = models.ForeignKey(Account, models.CASCADE, related_name="followers", db_index=False)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["followed", "follower"], name="follow_once"),)


class Tag(models.Model):
    """A tag: a word after # in a post."""

    name = models.CharField(max_length=50, unique=True)

    def __str__(self) -> str:
        return str(self.name)


class Post(models.Model):
    """A short text. A deleted post is marked at once, and a job then removes it from the feeds."""

    author = models.ForeignKey(Account, models.CASCADE, related_name="posts")
    text = models.TextField(max_length=500)
    created_at = models.DateTimeField(auto_now_add=True)
    is_deleted = models.BooleanField(default=False)
    mentions = models.ManyToManyField(Account, related_name="mentioned_in")
    tags = models.ManyToManyField(Tag, related_name="posts")

    def __str__(self) -> str:
        return str(self.text)[:40]


class Link(models.Model):
    """An address in a post, and the title of its page once a job has fetched the title."""

    post = models.ForeignKey(Post, models.CASCADE, related_name="links")
    url = models.URLField(max_length=500)
    title = models.CharField(max_length=200, blank=True)


class FeedEntry(models.Model):
    """A post in the feed of one account."""

    # Owner and post are the key, so that a job that runs twice makes no second entry. A key from the database would
    # have to be read back, while the thread holds the only lock of SQLite and other threads wait.
    pk = models.CompositePrimaryKey("owner", "post")
    owner = models.ForeignKey(Account, models.CASCADE, related_name="feed", db_index=False)
    post = models.ForeignKey(Post, models.CASCADE, related_name="feed_entries")
    added_at = models.DateTimeField(auto_now_add=True)
