"""The ASGI application for pages and web sockets.

Each socket authenticates its clients itself (apps.streaming.handshake).
"""

import gc
import multiprocessing
import os

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import WebsocketDenier
from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver, re_path

from apps.accounts.async_response import SCOPE, AsyncResponseMiddleware
from rftweb.parent_death import make_die_with_parent
from rftweb.threads import InThreads

if (
    starter := multiprocessing.parent_process()
):  # one of several (uvicorn --workers): it must end with its parent
    make_die_with_parent(parent=starter.pid)()

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
http = AsyncResponseMiddleware(InThreads(get_wsgi_application(), scope_as=SCOPE))
gc.disable()  # as rftweb.apps has it while apps load: the same for sockets and views

# Django must be set up before models load.
from apps.environments.openenv.routing import sockets as openenv_sockets  # noqa: E402
from apps.environments.routing import episode_sockets  # noqa: E402
from apps.runs import blind_review, log_keeper  # noqa: E402
from apps.streaming.routing import sockets  # noqa: E402
from rftweb.web_heartbeat import HeartbeatMiddleware  # noqa: E402

log_keeper.begin_keeping("web")
get_resolver().url_patterns  # noqa: B018 - all views are loaded, which the first request would do
gc.enable()
gc.collect()
# loaded objects stay: a full collection over them would delay some request by 60 ms
gc.freeze()
unknown_socket = re_path(
    r"", WebsocketDenier.as_asgi()
)  # otherwise the router raises, which gives a 500
websockets = URLRouter(
    [*sockets(blind_review), *episode_sockets(), *openenv_sockets, unknown_socket]
)
application = HeartbeatMiddleware(ProtocolTypeRouter({"http": http, "websocket": websockets}))
