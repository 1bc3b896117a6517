"""How much memory of a card that nobody holds may be in use, to be believed without a person. PURE.

The driver keeps some, and a screen takes a few hundred MiB. Above the ceiling it may be a leak, and must not be learnt.
"""

HEADLESS_CEILING_MIB = 64
"""Also of a card in MIG mode: as for one instance, since how many there are is not read."""
DISPLAY_CEILING_MIB = 1024


def ceiling_mib(*, display: bool) -> int:
    """The highest baseline that is learnt, in MiB."""
    return DISPLAY_CEILING_MIB if display else HEADLESS_CEILING_MIB
