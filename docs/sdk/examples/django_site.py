# Shows: JqmasterBackend, JqmasterTask, DjangoOutbox, django_worker, DjangoConnections
import django
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["worker_sdk.django"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    TASKS={"default": {"BACKEND": "worker_sdk.django.JqmasterBackend", "OPTIONS": {"timeout": 60}}},
)
django.setup()  # a site does both in settings.py and manage.py

from django.core.management import call_command  # noqa: E402
from django.db import transaction  # noqa: E402

from worker_sdk.django import DjangoOutbox, JqmasterBackend, JqmasterTask, task  # noqa: E402
from worker_sdk.django.worker import django_worker  # noqa: E402
from worker_sdk.middleware import DjangoConnections  # noqa: E402
from worker_sdk.testing import recording  # noqa: E402

call_command("migrate", verbosity=0)


@task(timeout=600, max_retry=8)
def send_welcome(user_id: int) -> str:
    return f"welcomed {user_id}"


backend: JqmasterBackend = send_welcome.get_backend()
outbox: DjangoOutbox = backend.outbox
assert isinstance(send_welcome, JqmasterTask)
with recording() as jobs:
    with transaction.atomic():
        send_welcome.enqueue(42)
        assert not jobs  # the job is a row of the outbox
    assert jobs.only()["timeout"] == 600
assert outbox.stats().waiting == 0

worker = django_worker()  # as `manage.py jq_worker` runs it
assert any(isinstance(one, DjangoConnections) for one in worker.middleware)
