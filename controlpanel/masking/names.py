"""Which names hold secrets: of variables, fields and options. PURE."""

import re
from functools import lru_cache
from itertools import pairwise

# Wherever they stand in a name, it holds a secret: DB_PASSWORD, ssl_keyfile_password, SECRET_KEY_BASE.
_ALWAYS = (
    "secret",
    "secrets",
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "passphrases",
    "credential",
    "credentials",
    "creds",
    "authorization",
)
# At the end of a name: DB_PASS, MYSQL_PWD, REDIS_AUTH, --api-keys. At the end of a word too: dbpass, apikey.
_AT_THE_END = ("key", "token", "pass", "pwd", "auth")
_AT_THE_END_ALONE = frozenset(
    ["keys", "apikeys", "tokens", "pw", "cred", "pat", "jwt", "hft", "cookie", "cookies", "sig", "signature"]
)
# Before key or token these make it a secret whatever stands around it: HF_TOKEN_READ, API_KEY_1.
_KEY_TO = frozenset(["api", "access", "secret", "private", "auth", "admin", "hf", "hub", "github", "gitlab", "bearer"])
_KEYS = frozenset(["key", "keys", "token", "tokens"])
_KEYS_IN_ONE = ("apikey", "apikeys", "accesskey", "secretkey", "privatekey", "authkey", "accountkey", "authtoken")
_OTHER_WORDS = frozenset(
    ["monkey", "valkey", "hotkey", "detoken", "turkey", "bypass", "compass", "surpass", "encompass", "subpass"]
)
# Words that turn a name about keys, tokens or passes into one that holds no secret: eos_token, max_new_tokens,
# public_key, forward_pass.
_HARMLESS_WORDS = frozenset(
    [
        "max", "min", "num", "n", "avg", "mean", "total", "new", "per", "first", "next", "last", "eos", "bos", "pad",
        "padding", "unk", "sep", "cls", "stop", "start", "end", "special", "mask", "image", "audio", "video", "vision",
        "decoder", "draft", "prompt", "completion", "input", "output", "cached", "prefill", "decode", "generated",
        "generation", "batched", "reasoning", "thinking", "text", "hash", "full", "swa", "public", "authorized",
        "host", "sort", "cache", "primary", "foreign", "query", "value", "kv", "dict", "state", "missing",
        "unexpected", "ignore", "ignored", "partition", "group", "idempotency", "forward", "backward", "fusion",
        "compile", "compilation", "second",
    ]
)  # fmt: skip
_HARMLESS_ENDINGS = frozenset(
    [
        "file", "path", "dir", "usage", "count", "name", "len", "length", "size", "type", "limit", "fingerprint",
        "embedding", "embeddings",
    ]
)  # fmt: skip
_HARMLESS_IDS = frozenset(["id", "ids"])
# A switch, not a secret: --allow-credentials, HF_HUB_DISABLE_IMPLICIT_TOKEN, --no-auth.
_SWITCHES = frozenset(["allow", "disable", "enable", "require", "requires", "skip"])
_SWITCHES_IN_FRONT = frozenset(["no", "is", "has"])
_NEVER = frozenset(["PWD", "OLDPWD", "NOPASSWD"])
"""The shell's own directories; and a tag in the rules of sudo, which our own advice tells a person to write."""

# Alone and with a colon these are words of a sentence ("the key: turn it"), and with a number a count.
PROSE = frozenset([*_KEYS, "pass", "auth", "sig", "signature", "pwd", "pw", "pat", "cred"])


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a variable, field or option of this name holds a secret."""
    if name in _NEVER:
        return False
    words = words_of(name)
    if not words or words[-1] in _HARMLESS_ENDINGS:
        return False
    if words[0] in _SWITCHES_IN_FRONT or _SWITCHES.intersection(words):
        return False
    if any(word.endswith(_ALWAYS) for word in words):
        return True
    if words[-1] in _HARMLESS_IDS:
        return False
    if any(word.endswith(_KEYS_IN_ONE) for word in words):
        return True
    if any(word in _KEYS and before in _KEY_TO for before, word in pairwise(words)):
        return True
    last = words[-1]
    ends = last in _AT_THE_END_ALONE or (last.endswith(_AT_THE_END) and last not in _OTHER_WORDS)
    return ends and not _HARMLESS_WORDS.intersection(words)


def words_of(name: str) -> list[str]:
    """The words of a name, lower-case, a number at its end left out: DB_PASS2 as DB_PASS."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("-_.")
    return [word for word in re.split(r"[^a-z0-9]+", re.sub(r"[0-9._-]+$", "", name)) if word]


def counts(name: str) -> bool:
    """Whether a number under this name counts something: engines count tokens in every line."""
    words = words_of(name)
    if len(words) == 1:
        return words[0] in PROSE
    return bool(words) and words[-1] in ("token", "tokens") and words[-2] not in _KEY_TO
