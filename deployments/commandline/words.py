"""Text to words, as a POSIX shell splits it, without running anything. PURE.

What a shell would fill in (``$X``, ``~``, ``$(...)``) stays in the word with a sentence on it (``Word.trouble``), for
it matters only in a word that is kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from deployments.commandline import typography

OPERATORS = ("&&", "||", "|&", ";;", "|", ";", "&", "(", ")", "\n")
REDIRECTION = re.compile(r"&>>?|>&(?![0-9-])|[0-9]*(?:>>|>\||>&|<&|<>|<<-?|>|<)")
EXPANSION = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]|\{[^}]*\}?)")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.S)
POWERSHELL = re.compile(r"`[ \t]*\n")
SIMPLE = re.compile(r"[A-Za-z0-9_./:,@%+=-]+")
"""Letters that mean nothing but themselves, read at once."""
IN_QUOTES = {"'": re.compile(r"[^']+"), '"': re.compile(r'[^"$`\\]+')}
LONGEST = 150_000
"""Characters of a text, with what stands around the command."""
MOST_WORDS = 5_000
TOO_LONG = "The command is too long (1,000 words and 100,000 characters at most)."
CONTINUED = re.compile(r"\\[ \t]*\n")
FILLED_IN = "{} would be filled in by a shell first. Write the value itself."
RUN_FIRST = "{} would be run by a shell first. Write the value itself."


@dataclass
class Word:
    """One word; ``bare`` is how many letters at its beginning stood outside quotes."""

    text: str = ""
    bare: int | None = None
    trouble: str = ""
    json: str = ""
    """The letters that may be JSON whose quotes a shell takes away: ``{``, then ``{"`` once both were seen."""

    @property
    def assigns(self) -> tuple[str, str] | None:
        """(name, value) of an ``NAME=value`` that a shell takes as an assignment: the name was not quoted."""
        found = ASSIGNMENT.fullmatch(self.text)
        if found is None or (self.bare is not None and self.bare <= len(found[1])):
            return None
        return found[1], found[2]


@dataclass(frozen=True)
class Operator:
    """What stands between commands: ``&&``, ``;``, a line's end ..."""

    text: str


Token = Word | Operator


@dataclass
class _Reader:
    """Goes once over the text. ``word`` is the one being read, None between words."""

    text: str
    end: int
    """Where the last letter that is no blank ends."""
    at: int = 0
    word: Word | None = None
    tokens: list[Token] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def read(self) -> None:
        while self.at < len(self.text):
            self._next(self.text[self.at])
            if len(self.tokens) > MOST_WORDS:
                raise ValueError(TOO_LONG)
        self._end_word()

    def _next(self, letter: str) -> None:
        if letter in " \t":
            self._end_word()
            self.at += 1
        elif letter == "#" and self.word is None:
            self._skip_comment()
        elif letter == "\\":
            self._backslash()
        elif letter in "'\"":
            self._quoted(letter)
        elif letter in "$`":
            self._expansion()
        elif (found := REDIRECTION.match(self.text, self.at)) and (self.word is None or not found[0][0].isdigit()):
            self._redirection(found[0])
        elif operator := next((known for known in OPERATORS if self.text.startswith(known, self.at)), ""):
            self._end_word()
            if operator != "\n" or (self.tokens and self.tokens[-1] != Operator("\n")):  # an empty line says nothing
                self.tokens.append(Operator(operator))
            self.at += len(operator)
        else:
            self._plain(letter)

    def _open_word(self) -> Word:
        if self.word is None:
            self.word = Word()
        return self.word

    def _end_word(self) -> None:
        word, self.word = self.word, None
        if word is None:
            return
        if word.json == '{"':
            word.trouble = word.trouble or (
                "JSON needs quotes around it, or a shell takes away those inside: write it as '{\"name\": 1}', between "
                "single quotes."
            )
        self.tokens.append(word)

    def _plain(self, letter: str) -> None:
        word = self._open_word()
        if (
            letter == "~"
            and not word.trouble
            and (not word.text or (word.assigns is not None and word.text[-1] in "=:"))
        ):
            word.trouble = "~ would be filled in by a shell first. Write the full path, for example /home/ana/models."
        if run := SIMPLE.match(self.text, self.at):
            # Digits may belong to a redirection that follows (2>log), but only at the beginning of a word.
            word.text += run[0]
            self.at = run.end()
            return
        word.trouble = word.trouble or typography.trouble(letter, first=not word.text)
        if letter == "{":
            word.json = word.json or "{"
        word.text += letter
        self.at += 1

    def _skip_comment(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _backslash(self) -> None:
        continued = CONTINUED.match(self.text, self.at)
        if (continued.end() if continued else self.at + 1) >= self.end:
            raise ValueError("The command ends with a backslash: is its last line missing? Add it, or remove the \\.")
        if continued:
            if continued[0] != "\\\n":
                line = self.text.count("\n", 0, self.at) + 1
                self.notes.append(
                    f"Line {line} has blanks after its backslash, where a shell ends the command; it was taken as "
                    "going on in the next line."
                )
            self.at = continued.end()
            return
        word = self._open_word()
        word.bare = len(word.text) if word.bare is None else word.bare
        word.text += self.text[self.at + 1]
        self.at += 2

    def _quoted(self, quote: str) -> None:
        word = self._open_word()
        word.bare = len(word.text) if word.bare is None else word.bare
        if quote == '"' and word.json == "{":
            word.json = '{"'
        self.at += 1
        while self.at < len(self.text):
            letter = self.text[self.at]
            if letter == quote:
                self.at += 1
                return
            if run := IN_QUOTES[quote].match(self.text, self.at):
                word.text += run[0]
                self.at = run.end()
                continue
            if quote == '"' and letter in "$`":
                self._expansion()
                continue
            if quote == '"' and letter == "\\" and self.text[self.at + 1 : self.at + 2] in ("\\", '"', "$", "`", "\n"):
                self.at += 1
                letter = self.text[self.at].replace("\n", "")
            word.text += letter
            self.at += 1
        raise ValueError(
            f"The quotes do not match (one {quote} is not closed). Close every quote that is opened; a quote in the "
            f"text itself is written \\{quote}."
        )

    def _expansion(self) -> None:
        """``$NAME``, ``${...}``, ``$(...)`` or backticks: kept as written, with a sentence on the word."""
        word = self._open_word()
        if self.text[self.at] == "`":
            if POWERSHELL.match(self.text, self.at):
                raise ValueError(
                    "A line ends with a backtick, as PowerShell goes on in the next line. End it with a backslash."
                )
            end = self.text.find("`", self.at + 1)
            end = len(self.text) if end < 0 else end + 1
            words = RUN_FIRST
        elif self.text.startswith("$(", self.at):
            end, words = _closed(self.text, self.at + 1), RUN_FIRST
        elif found := EXPANSION.match(self.text, self.at):
            end, words = found.end(), FILLED_IN
        elif self.text.startswith("$'", self.at):
            raise ValueError("$'...' is read by one kind of shell only. Write the text itself between single quotes.")
        else:
            end, words = self.at + 1, ""
        found_text = self.text[self.at : end]
        if words:
            word.trouble = word.trouble or words.format(repr(found_text[:80]))
        word.text += found_text
        self.at = end

    def _redirection(self, sign: str) -> None:
        """Dropped with its target: each launch has its own log."""
        self._end_word()
        self.at += len(sign)
        if "<<" in sign:
            raise ValueError("<< feeds text to the program, which the panel does not do. Write it as a file's path.")
        if sign.endswith(("<", ">")) and self.text.startswith("(", self.at):
            raise ValueError(f"{sign[-1]}(...) needs a shell, which the panel does not use. Write the file's path.")
        tokens = self.tokens
        self.tokens = []
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        while self.at < len(self.text) and self.text[self.at] not in " \t\n&|;()<>":
            self._next(self.text[self.at])
        if self.word is None:
            raise ValueError(f"A file's name is missing after {sign}. Leave {sign} out: each launch has its own log.")
        self.word, self.tokens = None, tokens


def _closed(text: str, at: int) -> int:
    """The place behind the bracket that closes the one at ``at``, or the end of the text."""
    depth = 0
    for place in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    return len(text)


def read_words(text: str) -> tuple[list[Token], list[str]]:
    """Words and operators of a pasted text, redirections left out, and notes on what was taken another way.

    Raises ValueError with a sentence where even a shell could not go on.
    """
    if len(text) > LONGEST:
        raise ValueError(TOO_LONG)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if re.search(r"(?<=\s)\^[ \t]*\n", text):
        raise ValueError("A line ends with ^, as Windows goes on in the next line. End it with a backslash.")
    text, notes = typography.tidy(text)
    reader = _Reader(text, len(text.rstrip()), notes=notes)
    reader.read()
    return reader.tokens, reader.notes
