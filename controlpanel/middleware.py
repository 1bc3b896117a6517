"""What is done to every answer."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase


def not_kept(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Tell browsers not to keep pages: after signing out, "back" must not show them. Static files never get here."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return answer
