import sys
from typing import Any

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"Hello {options['name']}")
        if options["name"] == "nobody":
            sys.exit(7)
