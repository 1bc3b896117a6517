"""What is shown can be pasted again, and is then exactly what it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from deployments.commandline import Command, check_command, on_one_line, parse, read_env, write, write_env

few = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
words = st.text(st.characters(blacklist_characters="\0\n\r", blacklist_categories=["Cs"]), max_size=12)
awkward = st.sampled_from(
    ["", " ", "'", '"', "\\", "$HOME", "~", "#", "A=1", "&&", "|", ">x", "{a,b}", "`x`", "–x", "“x”", "\u00a0", "--",
     "-", "a\\", "it's"]
)  # fmt: skip
some_words = st.lists(st.one_of(words, awkward), max_size=5)
names = st.text("ABXZ_", min_size=1, max_size=6)
environments = st.dictionaries(names, st.one_of(words, awkward), max_size=3)
programs = st.one_of(
    st.text("abxz/.-", min_size=1, max_size=9).map(lambda text: f"/{text}"),
    st.sampled_from(["python", "command:", "A=1", "it's", "{x}", "~/x", "#"]),
)
folders = st.one_of(st.just(""), words.map(lambda text: f"/{text}"))
prefixes = st.sampled_from(
    [[], ["numactl", "-N", "0"], ["nice", "-n", "5", "taskset", "-c", "0-7"], ["uv", "run", "--frozen"]]
)


@st.composite
def options(draw: st.DrawFn) -> list[str]:
    """The words of some options of ``docker run``, as people write them."""
    found: list[str] = []
    for _ in range(draw(st.integers(0, 4))):
        value = draw(st.one_of(words, awkward))
        found += draw(
            st.sampled_from(
                [["--gpus", value], [f"--ipc={value}"], ["-v", value], ["--rm"], [f"-e{value or 'A'}"], ["-p", "1:2"],
                 ["--restart", "always"], ["--privileged=false"], [f"-w={value}"]]
            )
        )  # fmt: skip
    return found


containers = st.one_of(
    st.just({}),
    st.builds(
        lambda tool, image, options: {"tool": tool, "image": image, "options": options},
        st.sampled_from(["docker", "podman"]),
        st.text("abxz/.:@", min_size=1, max_size=9),
        options(),
    ),
)


def may_be_kept(command: Command) -> None:
    """Leave out what no revision may hold: secrets, and names that change how programs are loaded."""
    try:
        check_command(command)
    except ValueError as refused:
        assume("read back" in str(refused))  # which the test is about


@few
@example([], "command:", ["x"], {}, "")
@example([], "A=1", ["x"], {}, "")
@example([], "#", ["x"], {}, "/a b")
@example(["numactl", "-N", "0"], "{x}", ["", "--y", "it's"], {"A": "~"}, "")
@given(prefixes, programs, some_words, environments, folders)
def test_a_command(prefix: list[str], program: str, rest: list[str], env: dict[str, str], workdir: str) -> None:
    assume(not (prefix and program in ("A=1", "#")) and program.rpartition("/")[2] not in ("sh", "su", "cd"))
    command = Command([*prefix, program, *rest], env, workdir)
    may_be_kept(command)
    assert parse(write(command)) == command
    assert parse(on_one_line(command)) == Command(command.argv, env)


@few
@given(containers.filter(bool), some_words, environments, folders)
def test_a_container(container: dict[str, Any], argv: list[str], env: dict[str, str], workdir: str) -> None:
    command = Command(argv, env, workdir, container)
    may_be_kept(command)
    assert parse(write(command)) == command


pieces = st.sampled_from(
    [
        " ", "\n", "\\\n", " && ", "; ", "&", "|", "'", '"', "\\", "#", "$", "$(", "`", ")", ">", "2>&1", "A=1", "env ",
        "nohup ", "cd /x", "export B=2", "source /v/bin/activate", "conda run -p /c ", "numactl -N 0 ", "uv run ",
        "--x", "python -m x", "vllm serve", "docker run ", "-it ", "-e A=1 ", "--gpus all ", "--rm ", "image ", "{",
        "~", "command: ", "- ", "“", "\u00a0", "é", "=",
    ]
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.text(max_size=60), st.lists(pieces, max_size=14).map("".join)))
def test_any_text_is_refused_in_words_or_reads_back_exactly(text: str) -> None:
    try:
        found = parse(text)
        check_command(found)
    except ValueError as refused:
        assert str(refused) and "read back" not in str(refused)
    else:
        assert parse(write(found)) == found


@few
@given(environments)
def test_an_environment_reads_back_from_its_box(env: dict[str, str]) -> None:
    assert read_env(write_env(env)) == env
    assert read_env(write_env(env).replace("\n", "\r\n").strip()) == env, "as a browser sends it"


@pytest.mark.parametrize(
    ("text", "env"),
    [
        ('A="two words"', {"A": "two words"}),
        ("export A=1\n\n  B = 2", {"A": "1", "B": " 2"}),
        ("A='it'\"'\"'s'", {"A": "it's"}),
        ("A=\"x\" y", {"A": '"x" y'}),
        ("A='x", {"A": "'x"}),
        ("A=", {"A": ""}),
    ],
)  # fmt: skip
def test_an_environment_as_people_write_it(text: str, env: dict[str, str]) -> None:
    assert read_env(text) == env
    with pytest.raises(ValueError, match="is not NAME=value"):
        read_env(f"{text}\nnothing")
