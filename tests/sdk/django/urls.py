from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path

from tests.sdk.django.blog.models import Post
from tests.sdk.django.blog.tasks import add


def post(request: HttpRequest) -> HttpResponse:
    Post.objects.create(text="a")
    result = add.enqueue(1)
    if request.GET.get("fails"):
        raise KeyError("after the enqueue")
    return HttpResponse(result.id)


async def apost(request: HttpRequest) -> HttpResponse:
    await Post.objects.acreate(text="a")
    return HttpResponse((await add.aenqueue(1)).id)


urlpatterns: list[Any] = [path("post", transaction.atomic(post)), path("apost", apost)]
