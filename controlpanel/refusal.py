"""The refusal of a request, in words for the person who made it. PURE."""


class Refused(Exception):
    """The request cannot be done as asked. ``message`` says why, ``hint`` what to do instead, ``link`` (address,
    words) where.
    """

    def __init__(self, message: str, *, hint: str = "", link: tuple[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.link = link
