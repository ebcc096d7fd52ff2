"""The site for a WSGI server: `gunicorn examples.microblog.wsgi`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "examples.microblog.settings")
application = get_wsgi_application()
