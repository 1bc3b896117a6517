"""Hides secrets in text, command lines and streams. PURE.

A secret is either known (given literally) or looks like one: a token of a known shape, a password in a URL, a
private key, or the value of a name such as HF_TOKEN or --api-key (`is_secret_name`). Everything that people or
the database get to see from a host goes through here. Where it is not clear how far a value goes, more is hidden
rather than less. Known secrets shorter than four characters are not looked for: they would hide half of every log.
"""

import base64
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import quote

MASK = "********"
SHORTEST_KNOWN = 4
LONGEST_LINE = 64 * 1024  # a line longer than this is let go in pieces, but never a piece of a secret
LONGEST_KEY_BLOCK = 32 * 1024
MOST_PASSES = 8  # what a mask has made shorter may look otherwise; the second pass mostly finds nothing
LONGEST_LIST = 8 * 1024  # of a secret's values, one a line

# --- Which names hold secrets ---------------------------------------------------------------------------------------

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
_WORKING_DIRECTORIES = frozenset(["PWD", "OLDPWD"])  # the shell's own

# Alone and with a colon these are words of a sentence ("the key: turn it"), and with a number a count.
_PROSE = frozenset([*_KEYS, "pass", "auth", "sig", "signature", "pwd", "pw", "pat", "cred"])


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a variable, field or option of this name holds a secret."""
    if name in _WORKING_DIRECTORIES:
        return False
    words = _words(name)
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


def _words(name: str) -> list[str]:
    """The words of a name, lower-case, a number at its end left out: DB_PASS2 as DB_PASS."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("-_.")
    return [word for word in re.split(r"[^a-z0-9]+", re.sub(r"[0-9._-]+$", "", name)) if word]


def _counts(name: str) -> bool:
    """Whether a number under this name counts something: engines count tokens in every line."""
    words = _words(name)
    if len(words) == 1:
        return words[0] in _PROSE
    return bool(words) and words[-1] in ("token", "tokens") and words[-2] not in _KEY_TO


# --- What a value is ------------------------------------------------------------------------------------------------

_NAME = r"(?<![A-Za-z0-9_.-])(?P<name>(?P<option>-++)?[A-Za-z0-9_.][A-Za-z0-9_.-]{0,250}+)(?P<quote>\\{0,7}[\"'])?\]?"
_NAMED = re.compile(
    rf"{_NAME}(?:[ \t]{{0,80}}+(?:(?P<sep>=>|[=:]{{1,3}}+|>(?!=))[ \t]*+|(?P<comma>,)[ \t]*+(?=[bru]?\\*+[\"']))"
    r"|(?(option)[ \t]++|(?!)))(?=\S)"
)
_BEFORE_NAME = re.compile(r"(?:(?:[(\[][bBrRuU]?)?\\{0,7}[\"'])?\Z")
_OPEN_LIST = re.compile(
    rf"{_NAME}[ \t]{{0,80}}+(?P<sep>=>|[=:]{{1,3}}+|>(?!=))[ \t]*+"
    r"(?P<value>(?:[A-Za-z_][A-Za-z0-9_.]{0,60}+)?[\[({])[ \t]*+(?=[\n\r])"
)
_HINT = re.compile(r"(?i)key|token|secret|pass|pw|cred|auth|sig|cookie|pat|jwt|hft")
_HEADERS = ("authorization", "cookie", "cookies")  # their values are made of several words

# Nothing at all, or a word that says so; masked text is masked no more.
_NOTHING_WORDS = r"(?:none|null|true|false|unset|empty|\.\.\.|\*+)"
_NOTHING = re.compile(rf"(?i)(?:[\s,()\[\]{{}}\"'\\]|\b{_NOTHING_WORDS}(?![a-z0-9_])|\*++|\.\.\.)*+")
_BEGINS_WITH_NOTHING = re.compile(rf"(?i)(?:{_NOTHING_WORDS})(?=[\s,;|)}}\]\"'&<]|$)")
_NUMBER = re.compile(r"-?[0-9][0-9.,%]*+(?=[\s;|)}\]\"'&<]|$)")
_NUMBERS = re.compile(r"[\[({][\s0-9.,%()\[\]{}:-]*+")

_OPENING_QUOTE = re.compile(r"[bBrRuUfF]{0,2}(\\{0,7}[\"'])")
_OPENING = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_.]{0,60}+)?[\[({]")
_BARE = re.compile(r"(?:[^\s\"',;|)}\]]|[,;|)}\]]{1,3}+(?=[^\s\"',;|)}\]])|'(?=[A-Za-z0-9]))++")
_IN_BRACKETS = re.compile(r"[bBrRuUfF]{0,2}\\{0,7}[\"']|[\[({\])}]|[\n\r]")
_IN_QUOTES = {quote: re.compile(rf"(?:[^{quote}\\\n\r]|\\[^\n\r])*+{quote}") for quote in "\"'"}
_GLUED = re.compile(r"[^\s\"',;|)}\]\\<&:=]++")  # to a closing quote, as a shell lets one write
_NEXT_WORD = re.compile(r"[ \t]++(?=[^\s\-|&;<>()\[\]{}#\"']|[\"'][^\-\s])")

_SCHEME = re.compile(r"(?i)(?:bearer|basic|digest|token|apikey|api-key|negotiate)[ \t]++(?=\S)")
_SHAPES: tuple[re.Pattern[str], ...] = (
    re.compile(r"(?i)\b(?:bearer|basic)[ \t]+(?P<hide>(?=[A-Za-z0-9._~+/=-]*[0-9._+/=-])[A-Za-z0-9._~+/=-]{8,})"),
    re.compile(r"(?<![A-Za-ln-z0-9])(?P<hide>(?:sk|rk|pk)-[A-Za-z0-9_-]{12,})"),
    re.compile(r"(?<![A-Za-ln-z0-9])(?P<hide>hf_[A-Za-z0-9]{8,})"),
    re.compile(r"(?<![A-Za-ln-z0-9])(?P<hide>(?:gh[opsur]_|github_pat_|glpat-)[A-Za-z0-9_-]{12,})"),
    re.compile(r"(?<![A-Za-ln-z0-9])(?P<hide>(?:AKIA|ASIA)[A-Z0-9]{16})\b"),
    re.compile(r"(?<![A-Za-ln-z0-9])(?P<hide>xox[abprs]-[A-Za-z0-9-]{10,})"),
    re.compile(r"(?<![A-Za-z0-9_-])(?P<hide>eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+)"),
    # A password in a URL; in one of the web also what stands alone before the @, for tokens are given so.
    re.compile(r"://[^\s/:@\"']{0,256}:(?P<hide>[^\s/\"']{1,512})@"),
    re.compile(r"(?i)\b(?:https?|wss?)://(?P<hide>[^\s/?#<>\"']{1,1024})@"),
)
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_LINE_END = re.compile(r"[\n\r]")
_COLOUR = re.compile(r"\x1b(?:\[[0-9;:?]{0,32}[ -/]{0,4}[@-~]|[()*+][ -~])")


# --- Masking whole texts, command lines and data --------------------------------------------------------------------


def as_written(secret: str) -> set[str]:
    """A known secret in the ways in which programs write it: plain, in Python's and JSON's quotes, in an address, in
    base64.
    """
    plain = secret.encode(errors="surrogateescape")
    return {
        secret,
        repr(secret)[1:-1],
        json.dumps(secret)[1:-1],
        quote(plain, safe=""),
        base64.b64encode(plain).decode().rstrip("="),
        base64.urlsafe_b64encode(plain).decode().rstrip("="),
    }


def mask_text(text: str, *, known: Iterable[str] = ()) -> str:
    """Return `text` without secrets; text that holds none comes back unchanged."""
    text = _mask_known(text, known=_usable(known))
    for _ in range(MOST_PASSES):
        masked = _hidden(text, _blocks(text))
        masked = _hidden(masked, _in_lines(masked))
        if masked == text:
            break
        text = masked
    return text


def mask_argv(argv: Sequence[str], *, known: Iterable[str] = ()) -> list[str]:
    """Return a command line whose secret values are masked: of `--api-key VALUE ...`, `--api-key=VALUE` and
    `NAME=VALUE`.
    """
    known, masked = _usable(known), []
    option, values = "", 0  # the secret's option that is open, and how many values it has had
    for word in argv:
        name, equals, value = word.partition("=")
        named = _SIMPLE_NAME.fullmatch(name) is not None and is_secret_name(name)
        if option and not (values and word.startswith("-")):
            masked.append(word if _counts(option) and _NUMBER.fullmatch(word) else MASK)
            values += 1
            continue
        option, values = "", 0
        if equals and named and not (_counts(name) and _NUMBER.fullmatch(value)):
            masked.append(f"{name}={MASK}")
        else:
            masked.append(mask_text(word, known=known))
            option = word if word.startswith("-") and not equals and named else ""
    return masked


_SIMPLE_NAME = re.compile(r"-*+[A-Za-z0-9_.][A-Za-z0-9_.-]*+")
_NAMING = ("name", "flag", "option", "variable", "header", "key")


def mask_values(value: Any, *, known: Iterable[str] = ()) -> Any:
    """Return plain data (dicts, lists, text, numbers) with the secrets in it masked; sets become sorted
    lists.

    What stands under a secret's name is masked whole, and so is what stands beside it: the value of
    {"name": "HF_TOKEN", "value": ...} and of ["HF_TOKEN", ...].
    """
    known = _usable(known)
    if isinstance(value, Mapping):
        members = {str(name): member for name, member in value.items()}
        naming = next((name for name in _NAMING if _names_secret(members.get(name))), "")
        return {
            name: mask_values(member, known=known)
            if name == naming
            else _mask_member(members[naming] if naming else name, member, known=known)
            for name, member in members.items()
        }
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple):
        if len(value) == 2 and _names_secret(value[0]):
            return [mask_text(value[0], known=known), _mask_member(value[0], value[1], known=known)]
        if all(isinstance(word, str) for word in value):
            return mask_argv(value, known=known)
        return [mask_values(member, known=known) for member in value]
    return mask_text(value, known=known) if isinstance(value, str) else value


def _names_secret(value: Any) -> bool:
    """Whether a text is a secret's name, such as HF_TOKEN, HF_TOKEN= or --api-key."""
    if not isinstance(value, str) or not _SIMPLE_NAME.fullmatch(value.removesuffix("=")):
        return False
    return is_secret_name(value) and value.lower() not in _PROSE


def _mask_member(name: str, value: Any, *, known: Sequence[str]) -> Any:
    if is_secret_name(name) and _holds_something(value, counts=_counts(name)):
        return MASK
    return mask_values(value, known=known)


def _holds_something(value: Any, *, counts: bool) -> bool:
    """Whether there is more in a secret's value than nothing, yes and no; or than numbers, if it `counts`."""
    if isinstance(value, Mapping):
        return any(_holds_something(member, counts=counts) for member in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return any(_holds_something(member, counts=counts) for member in value)
    if value is None or isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        return not counts
    return not isinstance(value, str) or not _NOTHING.fullmatch(value)


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
        text = piece = self._let_go(upto=self._safe_cut())
        while len(self._held) > 2 * self._longest_line:
            if not piece:
                self._left_out, self._held = _bytes(self._held), ""
            else:
                text += (piece := self._let_go(upto=self._safe_cut()))
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
        cut, blocks = _end_of_lines(held, len(held)), [secret.span for secret in _blocks(held)]
        while (begin := self._begin_of_divided(cut, blocks)) < cut:
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
        secrets = [secret.span for secret in (*_blocks(self._held), *_in_lines(self._held))]
        # Half a colour would be letters before what follows it.
        secrets += [colour.span() for colour in _COLOUR.finditer(self._held)]
        while (begin := self._begin_of_divided(cut, secrets)) < cut:
            cut = begin
        return cut

    def _begin_of_divided(self, cut: int, secrets: Sequence[tuple[int, int]]) -> int:
        """Return where the first secret begins that `cut` would divide, else `cut`."""
        return min([self._known_begins_before(cut), *(begin for begin, end in secrets if begin < cut < end)])

    def _known_begins_before(self, cut: int) -> int:
        """Return where a known secret begins that the text up to `cut` ends in the middle of, else `cut`: as it
        stands there, and as a terminal shows it.
        """
        starts = _starts_across(self._held, cut, known=self._known)
        plain, place = _without_colours(self._held)
        if plain is not self._held:
            shown = bisect_left(range(len(plain)), cut, key=place)
            starts += [place(start) for start in _starts_across(plain, shown, known=self._known)]
        return min([cut, *starts])


def _starts_across(text: str, cut: int, *, known: Sequence[str]) -> list[int]:
    """Return where each of the known secrets begins that has begun before `cut` and, so far as is seen, goes on."""
    starts = []
    for secret in known:
        for length in range(min(len(secret) - 1, cut), 0, -1):
            start = cut - length
            if secret.startswith(text[start : start + len(secret)]):
                starts.append(start)
                break
    return starts


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
    plain, place = _without_colours(text)
    if plain is text:
        return text
    found: list[_Secret] = []
    for secret in known:  # a colour may stand inside
        at = plain.find(secret)
        while at >= 0:
            found.append(_Secret(place(at), place(at), place(at + len(secret) - 1) + 1))
            at = plain.find(secret, at + len(secret))
    return _hidden(text, found)


# --- Where secrets stand --------------------------------------------------------------------------------------------


class _Secret(NamedTuple):
    """Where a secret begins (what names it included), and what of the text is hidden. A block that has not ended
    goes beyond the text.
    """

    begin: int
    hide: int
    end: int
    something: bool = True  # False: what stands there is nothing to hide, but not to be divided either

    @property
    def span(self) -> tuple[int, int]:
        return self.begin, self.end


def _hidden(text: str, secrets: Iterable[_Secret]) -> str:
    """Return `text` with a mask for each secret, one mask where they overlap."""
    parts, position = [], 0
    for secret in sorted((secret for secret in secrets if secret.something), key=lambda secret: secret.hide):
        if secret.hide >= position:
            parts += [text[position : secret.hide], MASK]
        position = max(position, secret.end)
    return "".join(parts) + text[position:] if parts else text


def _blocks(text: str) -> Iterator[_Secret]:
    """Yield the secrets of several lines: private keys, and what stands in brackets that a line opens."""
    plain, place = _without_colours(text)
    keys = ((found.start(), found, True) for found in _KEY_BEGIN.finditer(plain))
    lists = ((found.start(), found, False) for found in _OPEN_LIST.finditer(plain) if _may_hold_secret(found))
    position = 0
    for begin, found, is_key in sorted([*keys, *lists], key=lambda each: each[0]):
        if begin < position:
            continue
        if is_key:
            hide, last, something = begin, found.end() + LONGEST_KEY_BLOCK, True
            ending = _KEY_END.search(plain, found.end(), last)
            end = ending.end() if ending else last
        else:
            hide, last = found.start("value"), found.end() + LONGEST_LIST
            end = _end_of_brackets(plain, found.end("value"), last)
            something = end == last or not _holds_nothing(plain, hide, end, name=found["name"])
        position = end
        yield _Secret(place(begin), place(hide), place(end - 1) + 1, something)


def _in_lines(text: str) -> Iterator[_Secret]:
    """Yield everything else that looks like a secret; none of it goes beyond its line."""
    plain, place = _without_colours(text)
    for shape in _SHAPES:
        for found in shape.finditer(plain):
            yield _Secret(place(found.start()), place(found.start("hide")), place(found.end("hide") - 1) + 1)
        if plain is not text:  # what a colour parts are two words, too
            spaced = _COLOUR.sub(lambda colour: " " * len(colour[0]), text)
            for found in shape.finditer(spaced):
                yield _Secret(found.start(), found.start("hide"), found.end("hide"))
    if _HINT.search(plain):
        for secret in _named(plain):
            yield _Secret(place(secret.begin), place(secret.hide), place(secret.end - 1) + 1)


def _without_colours(text: str) -> tuple[str, Callable[[int], int]]:
    """Return the text that a terminal would show, and what tells where a place in it was."""
    colours = list(_COLOUR.finditer(text)) if "\x1b" in text else []
    if not colours:
        return text, lambda at: at
    parts, starts, shifts, position, length = [], [0], [0], 0, 0
    for colour in colours:
        parts.append(text[position : colour.start()])
        length += colour.start() - position
        position = colour.end()
        starts.append(length)
        shifts.append(position - length)
    parts.append(text[position:])
    return "".join(parts), lambda at: at + shifts[bisect_right(starts, at) - 1]


def _named(text: str) -> Iterator[_Secret]:
    """Yield the values of secret names; the search goes on inside a value that is none."""
    position = 0
    while found := _NAMED.search(text, position):
        value = _value(text, found) if _may_hold_secret(found) else None
        if value:
            yield _Secret(found.start() - len(_before(found)), *value)
        position = value[1] if value else found.end("name")


def _before(found: re.Match[str]) -> str:
    """What stands before a name, as far as it matters: a quote, and the bracket before that."""
    before = _BEFORE_NAME.search(found.string[max(found.start() - 10, 0) : found.start()])
    return before[0] if before else ""


def _may_hold_secret(found: re.Match[str]) -> bool:
    """Whether a name, as it stands here, has a secret's value."""
    name = found["name"]
    if not is_secret_name(name):
        return False
    if found.groupdict().get("comma"):  # ("HF_TOKEN", "abc") and ["serve", "--api-key", "abc"], not any list
        first = _before(found).startswith(("(", "[")) and name.lower() not in _PROSE
        return bool(found["quote"] and (found["option"] or first))
    if name.lower() not in _PROSE:
        return True
    return "=" in (found["sep"] or "") or bool(found["quote"] and found["sep"])


def _value(text: str, found: re.Match[str]) -> tuple[int, int] | None:
    """Return what to hide of the value that follows a secret's name; None if it is no secret."""
    name, at = found["name"], found.end()
    an_option = found["sep"] is None and found["comma"] is None
    if an_option and text[at] == "-":
        return None
    if _BEGINS_WITH_NOTHING.match(text, at) and not (an_option and text.startswith(MASK, at)):
        return None
    if _counts(name) and _NUMBER.match(text, at):
        return None
    if name.lower() == "pwd" and text[at] in "/~":
        return None
    if not found["quote"] and ":" in (found["sep"] or "") and _words(name)[-1] in _HEADERS:
        end = _end_of_line(text, at, before=_before(found)[-1:])
        return at, _before_backslashes(text, at, end)
    hide, end, after = _one_value(text, at)
    if _holds_nothing(text, hide, end, name=name) and not an_option:
        return None
    while an_option and (gap := _NEXT_WORD.match(text, after)):
        hide, (_, _, after) = at, _one_value(text, gap.end())
        end = after
    return hide, end


def _one_value(text: str, at: int) -> tuple[int, int, int]:
    """Return what to hide of the value that begins at `at`, and where it ends: of one in quotes what is between
    them is hidden.
    """
    if scheme := _SCHEME.match(text, at):
        _, _, after = _one_value(text, scheme.end())
        return at, after, after
    if quote := _OPENING_QUOTE.match(text, at):
        end, after = _end_in_quotes(text, quote.end(), quote[1])
        if rest := _GLUED.match(text, after):
            return at, rest.end(), rest.end()
        return quote.end(), end, after
    if opening := _OPENING.match(text, at):
        end = _end_of_brackets(text, opening.end(), _end_of_line(text, at))
    else:
        bare = _BARE.match(text, at)
        end = _before_backslashes(text, at, bare.end()) if bare else at
    return at, end, end


def _before_backslashes(text: str, at: int, end: int) -> int:
    """Return `end`, or where the backslash of a quote that stands there begins."""
    if text[end : end + 1] in ("'", '"'):
        while end > at and text[end - 1] == "\\":
            end -= 1
    return end


def _end_in_quotes(text: str, at: int, quote: str) -> tuple[int, int]:
    """Return where what is quoted ends, without and with the closing quote: where the line does if there is none."""
    if len(quote) == 1:
        found = _IN_QUOTES[quote].match(text, at)
    else:  # one of a text in a text: its own quotes have more backslashes
        found = re.compile(rf"[^\n\r]*?(?<!\\){re.escape(quote)}").match(text, at)
    if found:
        return found.end() - len(quote), found.end()
    line = _end_of_line(text, at)
    return line, line


def _end_of_line(text: str, at: int, *, before: str = "") -> int:
    """Return where the line ends, or before that the quote `before` is closed."""
    found = _LINE_END.search(text, at)
    end = found.start() if found else len(text)
    closing = text.find(before, at, end) if before in ("'", '"') else -1
    return end if closing < 0 else closing


def _end_of_brackets(text: str, at: int, last: int) -> int:
    """Return where the bracket is closed that was opened before `at`; `last` if it is not before that."""
    depth, position = 1, at
    while found := _IN_BRACKETS.search(text, position, last):
        sign, position = found[0], found.end()
        if sign[-1] in "\"'":
            position = _end_in_quotes(text, position, sign.lstrip("bBrRuUfF"))[1]
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
            if not depth:
                return position
    return last


def _holds_nothing(text: str, begin: int, end: int, *, name: str) -> bool:
    """Whether there is no more in a value than nothing; or than numbers, if its name counts."""
    if _NOTHING.fullmatch(text, begin, end):
        return True
    return _counts(name) and _NUMBERS.fullmatch(text, begin, end) is not None
