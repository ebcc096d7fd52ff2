from django.apps import AppConfig


class BlogConfig(AppConfig):
    name = "tests.sdk.django.blog"
    label = "blog"
