"""The pages: a feed with a form to post, the posts with a tag, and the progress of a post."""

from typing import Any

from django.db.models import Count, Max, Min
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from examples.microblog.models import Account, FeedEntry, Post
from examples.microblog.posting import delete_post, save_post

ON_A_PAGE = 20
MAX_CHARS = 500


@require_GET
def accounts(request: HttpRequest) -> HttpResponse:
    """Show the authors, and a few of those who follow them."""
    authors = Account.objects.filter(followers__isnull=False).distinct()[:5]
    readers = Account.objects.filter(follows__isnull=False).distinct()[:10]
    return render(request, "microblog/accounts.html", {"authors": authors, "readers": readers})


def feed(request: HttpRequest, name: str) -> HttpResponse:
    """Show the feed of an account, or save its new post. This example has no login: the address determines the user."""
    account = get_object_or_404(Account, name=name)
    error = ""
    if request.method == "POST":
        text = request.POST.get("text", "").strip()
        if text and len(text) <= MAX_CHARS:
            save_post(account, text)
            return redirect(request.path)
        error = f"A post has 1 to {MAX_CHARS} characters."
    posts = _shown(Post.objects.filter(feed_entries__owner=account))
    return render(request, "microblog/feed.html", {"account": account, "posts": posts, "error": error})


@require_GET
def tag(request: HttpRequest, name: str) -> HttpResponse:
    """Show the posts with a tag."""
    posts = _shown(Post.objects.filter(tags__name=name.lower()))
    return render(request, "microblog/tag.html", {"name": name, "posts": posts})


@require_GET
def progress(request: HttpRequest, post_id: int) -> JsonResponse:
    """Return how many followers have a post in their feeds, and when the first and the last follower got it."""
    post = get_object_or_404(Post, pk=post_id)
    found: dict[str, Any] = (
        FeedEntry.objects.filter(post=post)
        .exclude(owner_id=post.author_id)
        .aggregate(feeds=Count("owner"), first=Min("added_at"), last=Max("added_at"))
    )
    seconds = {
        f"{which}_s": found[which] and (found[which] - post.created_at).total_seconds()
        for which in ("first", "last")
    }
    followers = Account.objects.filter(follows__followed=post.author_id).count()
    return JsonResponse({"feeds": found["feeds"], "followers": followers, **seconds})


@require_POST
def delete(request: HttpRequest, post_id: int) -> HttpResponse:
    """Delete a post."""
    post = Post.objects.select_related("author").filter(pk=post_id).first()
    if post is None:
        raise Http404
    delete_post(post)
    return redirect(f"/{post.author.name}")


def _shown(posts: Any) -> Any:
    found = posts.filter(is_deleted=False).select_related("author").prefetch_related("links", "tags")
    return found.order_by("-pk")[:ON_A_PAGE]
