"""Pages and sockets in one ASGI application. Sockets are for signed-in people, from our own origin."""

import os

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.wsgi import get_wsgi_application

from rftweb.threads import InThreads

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
http = InThreads(get_wsgi_application())

# Django must be set up before models load.
from apps.runs import blindness  # noqa: E402
from apps.streaming.routing import sockets  # noqa: E402

application = ProtocolTypeRouter(
    {"http": http, "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(sockets(blindness))))}
)
