from django.db import models


class Post(models.Model):
    text = models.TextField()

    class Meta:
        app_label = "blog"
