"""How sudo says no. PURE.

The panel asks with `sudo -n`, which never waits for a password but ends with a sentence instead.
"""

import re

SAID = re.compile(rb"^sudo: (?!unable to resolve host).*$|^.*\bsudo: (?:command )?not found.*$", re.M)
"""Not what it only remarks: it goes on where it cannot resolve the host's own name."""


def refusal(output: bytes) -> str:
    """What sudo said at last, as a sentence for a person; empty when it refused nothing."""
    said = SAID.findall(output)
    if not said:
        return ""
    words = said[-1].decode(errors="replace").strip()
    if "not found" in words and not words.startswith("sudo:"):
        return "There is no sudo on this host."
    if "password is required" in words:
        return "sudo asks for a password on this host."
    return f"sudo does not let the login in: {words.removeprefix('sudo: ')[:160]}."
