"""Building scripts and reading what they say, in whatever pieces it comes."""

import shlex
import subprocess
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.remote.script import Said, ScriptReader, build, wrapper

TOKEN = "0123456789abcdef"


def test_the_text_of_a_wrapper() -> None:
    text = wrapper(["python", "-m", "x y"], env={"A": "it's"}, workdir="/srv/my models")
    assert text.endswith(
        "    cd '/srv/my models' || exit 1\n"
        "    export A='it'\"'\"'s'\n"
        "    exec python -m 'x y'\n"
        ")\n"
        "CODE=$?\n"
        'rm -f "$DIR/secrets" "$DIR/settings.yaml"\n'
        'rm -rf "/run/relaunch-${DIR##*/}"\n'
        'printf \'%s\\n\' "$CODE" > "$DIR/exit.new"\n'
        'mv "$DIR/exit.new" "$DIR/exit"\n'
    )
    assert "@COMMAND@" not in text


def test_a_wrapper_with_secrets_holds_none_itself() -> None:
    text = wrapper(["python"], env={"A": "1"}, workdir="", secrets=True, settings=True)
    assert (
        "    export A=1\n"
        '    . "$DIR/secrets"\n'
        '    rm -f "$DIR/secrets"\n'
        '    exec python --config "$DIR/settings.yaml"\n'
    ) in text  # fmt: skip


def test_values_stand_at_the_top_and_nothing_in_argv() -> None:
    script = build("stop", values={"SIGNAL": "TERM", "TARGETS": ["1:2", "3:4"], "WHO": "a'b\nc"})
    lines = script.stdin.decode().split("\n")
    assert lines[:2] == ["SIGNAL=TERM", "TARGETS='1:2 3:4'"]
    assert script.stdin.startswith(
        b"SIGNAL=TERM\nTARGETS='1:2 3:4'\nWHO='a'\"'\"'b\nc'\nTOKEN=" + script.token.encode()
    )
    assert script.argv == ("sh", "-s")


def test_each_script_has_its_own_token() -> None:
    assert len({build(values={}).token for _ in range(50)}) == 50


def test_a_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="RUN holds a NUL"):
        build(values={"RUN": "a\0b"})


shell_text = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=40)


@given(st.lists(shell_text, min_size=1, max_size=5))
def test_a_shell_gets_exactly_the_values(values: list[str]) -> None:
    named = {f"V{n}": value for n, value in enumerate(values)}
    lines = build(values=named).stdin.decode().split("TOKEN=")[0]
    assert shlex.split(lines) == [f"{name}={value}" for name, value in named.items()]


def test_a_shell_runs_it() -> None:
    script = build(values={"PANEL": "p", "DEPLOYMENT": 1, "X": "a  b"})
    ran = subprocess.run(script.argv, input=script.stdin, capture_output=True, check=False)
    reader = script.reader()
    assert list(reader.feed(ran.stdout)) == [Said("end")]
    assert reader.ended


def line(*words: str) -> bytes:
    return f"@{TOKEN} {' '.join(words)}\n".encode()


def log(offset: int, payload: bytes) -> bytes:
    return line("log", str(offset), str(len(payload))) + payload + b"\n"


words = st.text("abcxyz0189-/:", min_size=1, max_size=6)
payloads = st.binary(max_size=60) | st.just(line("exited", "0")) | st.just(line("log", "0", "9999") + line("end"))
noise = st.sampled_from(
    [b"motd\n", b"\n", b"@other end\n", b"@" + TOKEN[:4].encode() + b" end\n", b" @" + TOKEN.encode() + b" x\n"]
)
spoken = st.lists(
    st.one_of(
        st.tuples(words.filter(lambda word: word not in ("log", "end")), st.lists(words, max_size=3)).map(
            lambda said: (Said(said[0], tuple(said[1])), line(said[0], *said[1]))
        ),
        payloads.map(lambda data: (Said("log", ("7", str(len(data))), data), log(7, data))),
        noise.map(lambda data: (None, data)),
    ),
    max_size=8,
)


@given(spoken, st.data())
@pytest.mark.long
def test_any_cutting_reads_the_same(parts: list[tuple[Said | None, bytes]], data: st.DataObject) -> None:
    output = b"".join(part for _, part in parts) + line("end")
    cuts = sorted({0, len(output), *data.draw(st.lists(st.integers(0, len(output)), max_size=12))})
    reader = ScriptReader(TOKEN)
    found: list[Said] = []
    for begin, end in pairwise(cuts):
        assert not reader.ended
        found += reader.feed(output[begin:end])
    assert found == [*(said for said, _ in parts if said is not None), Said("end")]
    assert reader.ended


@given(spoken)
@pytest.mark.long
def test_what_is_cut_has_not_ended(parts: list[tuple[Said | None, bytes]]) -> None:
    output = b"".join(part for _, part in parts) + line("end")
    reader = ScriptReader(TOKEN)
    list(reader.feed(output[:-1]))
    assert not reader.ended


def test_a_line_that_says_nothing_is_skipped_by_nobody_who_looks_for_a_word() -> None:
    reader = ScriptReader(TOKEN)
    said = list(reader.feed(f"@{TOKEN} \n@{TOKEN} looked\n@{TOKEN} end\n".encode()))
    assert [line.word for line in said] == ["", "looked", "end"] and reader.ended
