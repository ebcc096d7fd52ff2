"""The addresses of the site."""

from django.urls import path

from examples.microblog import views

urlpatterns = [
    path("", views.accounts),
    path("tags/<str:name>", views.tag),
    path("posts/<int:post_id>/progress", views.progress),
    path("posts/<int:post_id>/delete", views.delete),
    path("<str:name>", views.feed),
]
