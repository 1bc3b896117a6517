"""The web process: pages through Django, and one websocket a page."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlpanel.settings")

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import WebsocketDenier
from django.core.asgi import get_asgi_application
from django.urls import path, re_path

django_application = get_asgi_application()

from controlpanel.live.consumer import LiveConsumer  # noqa: E402  (needs the apps to be loaded)
from controlpanel.live.origin import same_origin_only  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": django_application,
        "websocket": same_origin_only(
            URLRouter([path("ws/", LiveConsumer.as_asgi()), re_path("", WebsocketDenier.as_asgi())])
        ),
    }
)
