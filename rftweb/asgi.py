"""Pages and sockets in one ASGI application. Each socket says who may knock (apps.streaming.handshake)."""

import gc
import multiprocessing
import os

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import WebsocketDenier
from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver, re_path

from apps.accounts.later import SCOPE, Later
from rftweb.lifeline import die_with_parent
from rftweb.threads import InThreads

gc.disable()  # imports make no garbage, and full collections among them take an eighth of a start
if starter := multiprocessing.parent_process():  # one of several (uvicorn --workers): none outlives who started it
    die_with_parent(parent=starter.pid)()

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
http = Later(InThreads(get_wsgi_application(), scope_as=SCOPE))

# Django must be set up before models load.
from apps.environments.openenv.routing import sockets as openenv_sockets  # noqa: E402
from apps.environments.routing import episode_sockets  # noqa: E402
from apps.runs import blindness, log_keeper  # noqa: E402
from apps.streaming.routing import sockets  # noqa: E402
from rftweb.attended import Attended  # noqa: E402

log_keeper.begin("web")
get_resolver().url_patterns  # noqa: B018 - all views are loaded, which the first request would do
gc.enable()
gc.collect()
gc.freeze()  # what is loaded stays: a full collection that walks through it takes 60 ms of whoever asks then
unknown_socket = re_path(r"", WebsocketDenier.as_asgi())  # without it the router raises, and that is a 500
websockets = URLRouter([*sockets(blindness), *episode_sockets(), *openenv_sockets, unknown_socket])
application = Attended(ProtocolTypeRouter({"http": http, "websocket": websockets}))
