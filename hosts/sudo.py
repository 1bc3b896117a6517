"""How sudo says no. PURE.

The panel asks with `sudo -n`, which never waits for a password but ends with a sentence instead.
"""

import re

SAID = re.compile(rb"^sudo: .*$|^.*\bsudo: (?:command )?not found.*$", re.M)


def refusal(output: bytes) -> str:
    """What sudo said, as a sentence for a person; empty when sudo said nothing."""
    found = SAID.search(output)
    if found is None:
        return ""
    words = found.group().decode(errors="replace").strip()
    if "not found" in words and not words.startswith("sudo:"):
        return "There is no sudo on this host."
    if "password is required" in words:
        return "sudo asks for a password on this host."
    return f"sudo does not let the login in: {words.removeprefix('sudo: ')[:160]}."
