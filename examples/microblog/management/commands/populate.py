"""`manage.py populate`: fill the database."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from examples.microblog.models import Account, Follow

AT_ONCE = 10_000


class Command(BaseCommand):
    """Create an author with many followers, and another author with a tenth of them."""

    help = "Create ada, grace and their followers: reader1, reader2 and so on."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--followers", type=int, default=100_000)

    def handle(self, *args: Any, **options: Any) -> None:
        """Create the accounts that are missing."""
        count = options["followers"]
        ada, _ = Account.objects.get_or_create(name="ada")
        grace, _ = Account.objects.get_or_create(name="grace")
        for start in range(1, count + 1, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, count + 1))
            names = [f"reader{number}" for number in numbers]
            Account.objects.bulk_create([Account(name=name) for name in names], ignore_conflicts=True)
            readers = Account.objects.filter(name__in=names).values_list("pk", flat=True)
            Follow.objects.bulk_create(
                [Follow(followed=ada, follower_id=pk) for pk in readers], ignore_conflicts=True
            )
        few = Follow.objects.filter(followed=ada).order_by("pk")[: max(1, count // 10)]
        Follow.objects.bulk_create(
            [Follow(followed=grace, follower_id=one.follower_id) for one in few], ignore_conflicts=True
        )
