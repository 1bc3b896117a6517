"""Masks text that comes in pieces. PURE."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from controlpanel.masking.colours import COLOUR, without_colours
from controlpanel.masking.places import MASK, blocks, in_lines
from controlpanel.masking.values import LINE_END
from controlpanel.masking.whole import mask_text, usable

LONGEST_LINE = 64 * 1024  # a line longer than this is let go in pieces, but never a piece of a secret


class StreamMasker:
    """Masks text that comes in pieces, wherever the pieces are cut.

    `feed` returns what is safe to show so far: whole lines (a carriage return ends one too), and of a line that
    is too long to be kept what is not part of a secret. `flush` returns the rest.
    """

    def __init__(self, *, known: Iterable[str] = (), longest_line: int = LONGEST_LINE) -> None:
        self._known = usable(known)
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
            end = LINE_END.search(piece)
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
        cut, spans = _end_of_lines(held, len(held)), [secret.span for secret in blocks(held)]
        while (begin := self._begin_of_divided(cut, spans)) < cut:
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
        secrets = [secret.span for secret in (*blocks(self._held), *in_lines(self._held))]
        # Half a colour would be letters before what follows it.
        secrets += [colour.span() for colour in COLOUR.finditer(self._held)]
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
        plain, place = without_colours(self._held)
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
