"""Pages and the API without web sockets, for a WSGI server besides the ASGI one in production."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
application = get_wsgi_application()

from apps.runs import log_keeper  # noqa: E402  (Django must be set up)

log_keeper.begin_keeping("web")
