"""placeholder. PURE."""

from deployments.fit.asked import Asked
from deployments.fit.outcome import Outcome
from deployments.fit.span import CannotTell


def work_out(asked: Asked) -> Outcome:
    raise CannotTell("later")
