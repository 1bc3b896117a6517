"""Hides secrets in text, command lines and streams. PURE.

A secret is either known (given literally) or looks like one: a token of a known shape, a password in a URL, a
private key, or the value of a name such as HF_TOKEN or --api-key. Everything that people or the database get
to see from a host goes through here. Known secrets shorter than four characters are not looked for: they
would hide half of every log.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

MASK = "********"
SHORTEST_KNOWN = 4
LONGEST_LINE = 64 * 1024  # a line longer than this is let go in pieces, but never a piece of a secret
LONGEST_KEY_BLOCK = 32 * 1024

_SECRET_WORDS = ("key", "token", "secret", "password", "passwd", "passphrase", "credential", "credentials")
# Words that turn a name about keys or tokens into one that holds no secret: eos_token, max_new_token,
# KEY_FILE.
_HARMLESS_WORDS = frozenset(
    [
        "max",
        "num",
        "n",
        "eos",
        "bos",
        "pad",
        "unk",
        "stop",
        "special",
        "mask",
        "image",
        "per",
        "public",
        "host",
        "sort",
        "cache",
        "primary",
        "foreign",
        "new",
        "total",
    ]
)
_HARMLESS_ENDINGS = frozenset(
    [
        "file",
        "path",
        "dir",
        "usage",
        "count",
        "id",
        "ids",
        "name",
        "len",
        "length",
        "size",
        "type",
        "limit",
        "fingerprint",
        "embedding",
    ]
)
_PLAIN_VALUES = frozenset({"none", "null", "true", "false", "unset", "empty", "...", MASK})

# The line may end, or be cut, before the quote closes.
_VALUE = r"\"[^\"\n]*\"|'[^'\n]*'|\"[^\"\n]+|'[^'\n]+|[^\s\"',;|)}\]]+"
_NAMED = re.compile(
    rf"(?P<name>(?<![A-Za-z0-9_.-])-{{0,2}}[A-Za-z][A-Za-z0-9_.-]{{0,80}}(?P<quote>[\"']?))"
    rf"(?P<sep>\s?[=:]\s?|[ \t]+)(?P<value>{_VALUE})"
)
_HINT = re.compile(r"(?i)key|token|secret|passw|passphrase|credential")
_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"(?i)\b(bearer|basic)([ \t]+)(?=[A-Za-z0-9._~+/=-]*[0-9._+/=-])[A-Za-z0-9._~+/=-]{8,}"),
        rf"\1\2{MASK}",
    ),
    (re.compile(r"(?<![A-Za-ln-z0-9])(?:sk|rk|pk)-[A-Za-z0-9_-]{12,}"), MASK),
    (re.compile(r"(?<![A-Za-ln-z0-9])hf_[A-Za-z0-9]{8,}"), MASK),
    (re.compile(r"(?<![A-Za-ln-z0-9])(?:gh[opsur]_|github_pat_|glpat-)[A-Za-z0-9_-]{12,}"), MASK),
    (re.compile(r"(?<![A-Za-ln-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}\b"), MASK),
    (re.compile(r"(?<![A-Za-ln-z0-9])xox[abprs]-[A-Za-z0-9-]{10,}"), MASK),
    (re.compile(r"(?<![A-Za-ln-z0-9])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"), MASK),
    (re.compile(r"(://[^\s/:@\"']{0,256}):[^\s/@\"']{1,256}@"), rf"\1:{MASK}@"),
)
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_LINE_END = re.compile(r"[\n\r]")


def is_secret_name(name: str) -> bool:
    """Whether a variable, field or option of this name holds a secret."""
    words = re.split(r"[_.\-]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("-_."))
    if not words or words[-1] in _HARMLESS_ENDINGS or _HARMLESS_WORDS.intersection(words):
        return False
    return any(word.endswith(_SECRET_WORDS) for word in words)


def mask_text(text: str, *, known: Iterable[str] = ()) -> str:
    """Return `text` without secrets; text that holds none comes back unchanged."""
    text = _mask_known(text, known=_usable(known))
    text = _mask_key_blocks(text)
    for shape, replacement in _SHAPES:
        text = shape.sub(replacement, text)
    return _mask_named(text) if _HINT.search(text) else text


def mask_argv(argv: Sequence[str], *, known: Iterable[str] = ()) -> list[str]:
    """Return a command line whose secret values are masked: of `--api-key VALUE`, `--api-key=VALUE` and
    `NAME=VALUE`.
    """
    known, masked, secret_follows = _usable(known), [], False
    for word in argv:
        name, equals, _ = word.partition("=")
        if secret_follows:
            masked.append(MASK)
            secret_follows = False
        elif equals and is_secret_name(name):
            masked.append(f"{name}={MASK}")
        else:
            masked.append(mask_text(word, known=known))
            secret_follows = word.startswith("-") and not equals and is_secret_name(word)
    return masked


def mask_values(value: Any, *, known: Iterable[str] = ()) -> Any:
    """Return plain data (dicts, lists, text, numbers) with the secrets in it masked; sets become sorted
    lists.
    """
    known = _usable(known)
    if isinstance(value, Mapping):
        return {str(name): _mask_member(str(name), member, known=known) for name, member in value.items()}
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple):
        if all(isinstance(word, str) for word in value):
            return mask_argv(value, known=known)
        return [mask_values(member, known=known) for member in value]
    return mask_text(value, known=known) if isinstance(value, str) else value


def _mask_member(name: str, value: Any, *, known: Sequence[str]) -> Any:
    if isinstance(value, str) and value and is_secret_name(name):
        return MASK
    return mask_values(value, known=known)


class StreamMasker:
    """Masks text that comes in pieces, wherever the pieces are cut.

    `feed` returns what is safe to show so far: whole lines (a carriage return ends one too), and of a line that
    is too long to be kept what is not part of a secret. `flush` returns the rest.
    """

    def __init__(self, *, known: Iterable[str] = (), longest_line: int = LONGEST_LINE) -> None:
        self._known = _usable(known)
        self._longest_line = longest_line
        self._held = ""
        self._left_out = 0  # bytes of a line that is hidden to its end, for its secret is too long to be kept

    @property
    def waiting(self) -> int:
        """Bytes (of UTF-8, escaped ones included) that were fed and that nothing returned stands for yet."""
        return self._left_out + _bytes(self._held)

    def feed(self, piece: str) -> str:
        """Take the next piece of the stream."""
        hidden = ""
        if self._left_out:
            end = _LINE_END.search(piece)
            if end is None:
                self._left_out += _bytes(piece)
                return ""
            hidden, piece, self._left_out = MASK, piece[end.start() :], 0
        self._held += piece
        text = self._let_go(upto=self._safe_cut())
        if not text and len(self._held) > 2 * self._longest_line:
            self._left_out, self._held = _bytes(self._held), ""
        return hidden + text

    def flush(self) -> str:
        """Return what was held back; the stream has ended."""
        hidden, self._left_out = MASK if self._left_out else "", 0
        return hidden + self._let_go(upto=len(self._held))

    def _let_go(self, *, upto: int) -> str:
        text, self._held = self._held[:upto], self._held[upto:]
        return mask_text(text, known=self._known)

    def _safe_cut(self) -> int:
        """Return how much of the held text no later piece can turn into (part of) a secret."""
        held = self._held
        cut, keys = _end_of_lines(held, len(held)), list(_key_blocks(held))
        while (begin := self._begin_of_divided(cut, keys)) < cut:
            cut = _end_of_lines(held, begin)
        if cut or len(held) <= self._longest_line:
            return cut
        return self._cut_in_line()

    def _cut_in_line(self) -> int:
        """Return where the held line may be cut: what follows is long enough to know a secret by that begins
        before. 0 where it is one secret so far.
        """
        cut = len(self._held) - self._longest_line // 2
        cut = self._held.rfind(" ", cut // 2, cut) + 1 or cut
        secrets = list(_secrets(self._held))
        while (begin := self._begin_of_divided(cut, secrets)) < cut:
            cut = begin
        return cut

    def _begin_of_divided(self, cut: int, secrets: Sequence[tuple[int, int]]) -> int:
        """Return where the first secret begins that `cut` would divide, else `cut`."""
        return min([self._known_begins_before(cut), *(begin for begin, end in secrets if begin < cut < end)])

    def _known_begins_before(self, cut: int) -> int:
        """Return where a known secret begins that the text up to `cut` ends in the middle of, else `cut`."""
        earliest = cut
        for secret in self._known:
            for length in range(min(len(secret) - 1, cut), 0, -1):
                start = cut - length
                seen = self._held[start : start + len(secret)]
                if secret.startswith(seen) or (secret == seen):
                    earliest = min(earliest, start)
                    break
        return earliest


def _end_of_lines(text: str, upto: int) -> int:
    """Return where the last line ends before `upto`; 0 where none does."""
    return max(text.rfind("\n", 0, upto), text.rfind("\r", 0, upto)) + 1


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogateescape"))


def _usable(known: Iterable[str]) -> tuple[str, ...]:
    """Return the known secrets worth looking for, longest first, so that one inside another does not leave
    a rest.
    """
    if isinstance(known, tuple):
        return known if all(len(secret) >= SHORTEST_KNOWN for secret in known) else _usable(list(known))
    return tuple(sorted({secret for secret in known if len(secret) >= SHORTEST_KNOWN}, key=lambda s: (-len(s), s)))


def _mask_known(text: str, *, known: Sequence[str]) -> str:
    for secret in known:
        text = text.replace(secret, MASK)
    return text


def _mask_key_blocks(text: str) -> str:
    parts, position = [], 0
    for begin, end in _key_blocks(text):
        parts += [text[position:begin], MASK]
        position = end
    return "".join(parts) + text[position:] if parts else text


def _key_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield where private keys begin and end; one that does not end may go beyond the text."""
    position = 0
    for begin in _KEY_BEGIN.finditer(text):
        if begin.start() < position:
            continue
        end = _KEY_END.search(text, begin.end(), begin.end() + LONGEST_KEY_BLOCK)
        position = end.end() if end else begin.end() + LONGEST_KEY_BLOCK
        yield begin.start(), position


def _secrets(text: str) -> Iterator[tuple[int, int]]:
    """Yield where everything that looks like a secret begins, what names it included, and ends."""
    yield from _key_blocks(text)
    for shape, _ in _SHAPES:
        yield from (found.span() for found in shape.finditer(text))
    yield from (found.span() for found in _named_secrets(text))


def _mask_named(text: str) -> str:
    """Mask the values of secret names."""
    parts, position = [], 0
    for found in _named_secrets(text):
        value = found["value"]
        quote = value[0] if value[0] in "\"'" else ""
        parts += [text[position : found.start("value")], quote, MASK, quote if value.endswith(quote) else ""]
        position = found.end()
    return "".join(parts) + text[position:]


def _named_secrets(text: str) -> Iterator["re.Match[str]"]:
    """Yield the names with their secret values; the search goes on inside a value that is none."""
    position = 0
    while found := _NAMED.search(text, position):
        secret = _holds_secret(found)
        if secret:
            yield found
        position = found.end() if secret else found.end("name")


def _holds_secret(found: "re.Match[str]") -> bool:
    name, separator = found["name"].rstrip("\"'"), found["sep"].strip()
    if found["value"].strip("\"'").lower() in _PLAIN_VALUES or not is_secret_name(name):
        return False
    if not separator:  # "--api-key VALUE" is an option, "the key VALUE" is prose
        return name.startswith("-") and not found["value"].startswith("-")
    number = re.fullmatch(r"[0-9.,%]+", found["value"].strip("\"'")) is not None
    if number and name.lower().lstrip("-").endswith(("token", "key")):
        return False  # engines count tokens in every line
    return separator == "=" or bool(found["quote"]) or name.lower() not in {"key", "token"}
