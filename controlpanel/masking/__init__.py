"""Hides secrets in text, command lines and streams. PURE.

A secret is either known (given literally) or looks like one: a token of a known shape, a password in a URL, a
private key, or the value of a name such as HF_TOKEN or --api-key (`is_secret_name`). Everything that people or
the database get to see from a host goes through here. Where it is not clear how far a value goes, more is hidden
rather than less. Known secrets shorter than four characters are not looked for: they would hide half of every log.
"""

from controlpanel.masking.names import is_secret_name
from controlpanel.masking.places import MASK
from controlpanel.masking.stream import LONGEST_LINE, StreamMasker
from controlpanel.masking.whole import SHORTEST_KNOWN, as_written, mask_argv, mask_text, mask_values

__all__ = [
    "LONGEST_LINE",
    "MASK",
    "SHORTEST_KNOWN",
    "StreamMasker",
    "as_written",
    "is_secret_name",
    "mask_argv",
    "mask_text",
    "mask_values",
]
