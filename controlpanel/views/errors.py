"""The page for a request that failed."""

import sys

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views.defaults import server_error

from controlpanel import outage


def failed(request: HttpRequest) -> HttpResponse:
    """Answer 503 while the database is busy or cannot be reached, else 500.

    Django calls this for every error, also one of a middleware, while it handles it. Neither page may ask the
    database for anything.
    """
    if not outage.passes(sys.exc_info()[1]):
        return server_error(request)
    headers = {"Retry-After": str(outage.RETRY_SECONDS)}
    return HttpResponse(render_to_string("503.html"), status=503, headers=headers)
