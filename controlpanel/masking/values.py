"""How far the value of a secret goes, and whether there is anything in it. PURE."""

import re

from controlpanel.masking.names import counts

# Nothing at all, or a word that says so; masked text is masked no more.
_NOTHING_WORDS = r"(?:none|null|true|false|unset|empty|\.\.\.|\*+)"
NOTHING = re.compile(rf"(?i)(?:[\s,()\[\]{{}}\"'\\]|\b{_NOTHING_WORDS}(?![a-z0-9_])|\*++|\.\.\.)*+")
BEGINS_WITH_NOTHING = re.compile(rf"(?i)(?:{_NOTHING_WORDS})(?=[\s,;|)}}\]\"'&<]|$)")
NUMBER = re.compile(r"-?[0-9][0-9.,%]*+(?=[\s;|)}\]\"'&<]|$)")
_NUMBERS = re.compile(r"[\[({][\s0-9.,%()\[\]{}:-]*+")

_OPENING_QUOTE = re.compile(r"[bBrRuUfF]{0,2}(\\{0,7}[\"'])")
_OPENING = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_.]{0,60}+)?[\[({]")
_BARE = re.compile(r"(?:[^\s\"',;|)}\]]|[,;|)}\]]{1,3}+(?=[^\s\"',;|)}\]])|'(?=[A-Za-z0-9]))++")
_IN_BRACKETS = re.compile(r"[bBrRuUfF]{0,2}\\{0,7}[\"']|[\[({\])}]|[\n\r]")
_IN_QUOTES = {quote: re.compile(rf"(?:[^{quote}\\\n\r]|\\[^\n\r])*+{quote}") for quote in "\"'"}
_GLUED = re.compile(r"[^\s\"',;|)}\]\\<&:=]++")  # to a closing quote, as a shell lets one write
NEXT_WORD = re.compile(r"[ \t]++(?=[^\s\-|&;<>()\[\]{}#\"']|[\"'][^\-\s])")

_SCHEME = re.compile(r"(?i)(?:bearer|basic|digest|token|apikey|api-key|negotiate)[ \t]++(?=\S)")
LINE_END = re.compile(r"[\n\r]")


def one_value(text: str, at: int) -> tuple[int, int, int]:
    """Return what to hide of the value that begins at `at`, and where it ends: of one in quotes what is between
    them is hidden.
    """
    if scheme := _SCHEME.match(text, at):
        _, _, after = one_value(text, scheme.end())
        return at, after, after
    if quote := _OPENING_QUOTE.match(text, at):
        end, after = _end_in_quotes(text, quote.end(), quote[1])
        if rest := _GLUED.match(text, after):
            return at, rest.end(), rest.end()
        return quote.end(), end, after
    if opening := _OPENING.match(text, at):
        end = end_of_brackets(text, opening.end(), end_of_line(text, at))
    else:
        bare = _BARE.match(text, at)
        end = before_backslashes(text, at, bare.end()) if bare else at
    return at, end, end


def before_backslashes(text: str, at: int, end: int) -> int:
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
    line = end_of_line(text, at)
    return line, line


def end_of_line(text: str, at: int, *, before: str = "") -> int:
    """Return where the line ends, or before that the quote `before` is closed."""
    found = LINE_END.search(text, at)
    end = found.start() if found else len(text)
    closing = text.find(before, at, end) if before in ("'", '"') else -1
    return end if closing < 0 else closing


def end_of_brackets(text: str, at: int, last: int) -> int:
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


def holds_nothing(text: str, begin: int, end: int, *, name: str) -> bool:
    """Whether there is no more in a value than nothing; or than numbers, if its name counts."""
    if NOTHING.fullmatch(text, begin, end):
        return True
    return counts(name) and _NUMBERS.fullmatch(text, begin, end) is not None
