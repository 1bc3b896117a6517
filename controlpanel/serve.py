"""Runs the web process on a listening socket that the supervisor opened: `python -m controlpanel.serve FD`.

The socket outlives a crash of the web process, so a browser that comes meanwhile waits instead of being
refused.
"""

import socket
import sys

import uvicorn
from django.conf import settings

GRACE_SECONDS = 5
LARGEST_FRAME = 64 * 1024


def main(*, fd: int) -> None:
    listener = socket.socket(fileno=fd)
    config = uvicorn.Config(
        "controlpanel.asgi:application",
        loop="uvloop",
        ws="websockets-sansio",
        ws_max_size=LARGEST_FRAME,
        lifespan="off",
        access_log=False,
        server_header=False,
        log_config=None,
        timeout_graceful_shutdown=GRACE_SECONDS,
        # The audit names addresses: a forwarded one counts only from a proxy that we were told about.
        proxy_headers=bool(settings.TRUSTED_PROXIES),
        forwarded_allow_ips=settings.TRUSTED_PROXIES or None,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    import os

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlpanel.settings")
    main(fd=int(sys.argv[1]))
