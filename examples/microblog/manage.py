"""Django's command line for this site: `python -m examples.microblog.manage COMMAND`."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "examples.microblog.settings")
    execute_from_command_line(sys.argv)
