"""What must be written so that a unit starts other flags, and when nothing can be."""

import re
import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.plan.unit_change import CannotChange, Change, UnitTold, Wanted, change_for
from deployments.plan.unit_file import (
    UnitFile,
    as_value,
    environment_line,
    expand,
    quoted_assignment,
    quoted_word,
    read_environment,
    read_unit,
    split_words,
)
from hosts.probe.frames import Unknown

ENV = "/etc/chat.env"
PROGRAM = "/opt/venv/bin/sglang"


def unit(text: str) -> UnitFile:
    found = read_unit(f"# /etc/systemd/system/chat.service\n[Unit]\nExecStart=no\n[Service]\n{text}\n")
    assert isinstance(found, UnitFile), found
    return found


def told(text: str, *, env: str | Unknown = "", **more: Any) -> UnitTold:
    found = read_unit(f"[Service]\n{text}\n")
    return UnitTold("chat.service", found, {ENV: env}, **({"shown": {"LoadState": "loaded"}} | more))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ExecStart=/bin/a -b c", ["/bin/a", "-b", "c"]),
        ("ExecStart=/bin/a \\\n  -b \\\n# not this\n  c", ["/bin/a", "-b", "c"]),
        ("ExecStart=/bin/old\nExecStart=\nExecStart=/bin/new x", ["/bin/new", "x"]),
        ("ExecStart=/bin/a \"b c\" 'd e' f\\x20g 50%%", ["/bin/a", "b c", "d e", "f g", "50%"]),
        ('ExecStart=/bin/a --json {"a":1}', ["/bin/a", "--json", "{a:1}"]),
        ("ExecStart=/bin/a $ARGS ${B} $$C", ["/bin/a", "$ARGS", "${B}", "$$C"]),
        ("[Install]\nExecStart=/bin/no\n[Service]\nExecStart=/bin/a", ["/bin/a"]),
    ],
)
def test_a_command_is_read_as_systemd_reads_it(text: str, words: list[str]) -> None:
    assert [*unit(text).words] == words


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Type=oneshot", "0 commands"),
        ("ExecStart=/bin/a\nExecStart=/bin/b", "2 commands"),
        ("ExecStart=-/bin/a", "not a plain one"),
        ("ExecStart=/bin/a ; /bin/b", "not a plain one"),
        ("ExecStart=/bin/a --name %i", "fills in"),
        ("ExecStart=/bin/a 'b", "does not end"),
    ],
)
def test_what_is_not_one_plain_command_is_unknown(text: str, reason: str) -> None:
    found = read_unit(f"[Service]\n{text}\n")
    assert isinstance(found, Unknown) and reason in found.reason


def test_variables_become_words_only_where_they_stand_alone() -> None:
    values = {"ARGS": "-a 'b c' \\\"d", "ONE": "e f"}
    assert expand(["/x", "$ARGS", "${ONE}", "pre$ONE", "$$Z", "$NONE"], values) == [
        *["/x", "-a", "b c", '"d', "e f", "pre$ONE", "$Z"]
    ]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b c ", "b c"),
        ("A='b \"c'", 'b "c'),
        (r'A="b \"c\" \$d \\ \n"', r'b "c" $d \ \n'),
        ("  A = b", "b"),
        ("#A=no\nA=b", "b"),
        ("A=no\nA=b", "b"),
    ],
)
def test_environment_files(line: str, value: str) -> None:
    assert read_environment(line) == {"A": value}


def test_a_value_of_several_lines_is_not_edited() -> None:
    assert isinstance(read_environment("A='b\nc'"), Unknown) and isinstance(read_environment("A=b \\\nc"), Unknown)


WORD = st.text(st.characters(blacklist_categories=("Cs", "Cc"), whitelist_characters="\t"), max_size=30)


@settings(max_examples=30)
@given(st.lists(WORD, min_size=1, max_size=6))
def test_what_is_written_to_a_file_is_read_back_as_the_same_words(words: list[str]) -> None:
    values = read_environment(environment_line("ARGS", as_value(words)))
    assert not isinstance(values, Unknown)
    assert expand(["$ARGS"], values) == words


@settings(max_examples=30)
@given(st.lists(WORD, min_size=1, max_size=6))
def test_what_is_written_to_a_unit_is_read_back_as_the_same_words(words: list[str]) -> None:
    command = ["/bin/a", *words]
    if ";" in words:
        return
    found = unit(f"ExecStart={' '.join(map(quoted_word, command))}")
    assert expand(found.words, {}) == command


@settings(max_examples=30)
@given(WORD)
def test_an_assignment_is_read_back(value: str) -> None:
    assert unit(f"ExecStart=/a\nEnvironment={quoted_assignment('A', value)}").environment == {"A": value}


def test_nothing_is_written_when_the_unit_starts_that_already() -> None:
    seen = told(f"ExecStart={PROGRAM} serve $ARGS\nEnvironment=A=b\nEnvironmentFile=-{ENV}", env="ARGS=--tp 2")
    assert change_for(seen, Wanted((PROGRAM, "serve", "--tp", "2"), {"A": "b"})) is None
    assert change_for(seen, Wanted(("sglang", "serve", "--tp", "2"))) is None, "the same program by its name"


@pytest.mark.parametrize(
    ("command", "argv", "lines"),
    [
        ("serve $ARGS", ["serve", "--tp", "4"], {"ARGS": 'ARGS="--tp 4"'}),
        ("serve $ARGS --port 1", ["serve", "--tp", "4", "--port", "1"], {"ARGS": 'ARGS="--tp 4"'}),
        ("serve $ARGS", ["serve"], {"ARGS": 'ARGS=""'}),
    ],
)
def test_a_line_of_the_environment_file_changes_the_flags(command: str, argv: list[str], lines: dict[str, str]) -> None:
    seen = told(f"ExecStart={PROGRAM} {command}\nEnvironmentFile={ENV}", env="ARGS=--tp 2\nHF_HOME=/m", containers=True)
    assert change_for(seen, Wanted((PROGRAM, *argv))) == Change(ENV, lines)


def test_variables_go_to_the_environment_file_too() -> None:
    seen = told(f"ExecStart={PROGRAM} serve\nEnvironment=A=old\nEnvironmentFile={ENV}", containers=True)
    found = change_for(seen, Wanted((PROGRAM, "serve"), {"A": "new"}))
    assert found == Change(ENV, {"A": 'A="new"'}) and found.shown == 'A="new"'


def test_flags_in_the_unit_itself_become_a_drop_in() -> None:
    seen = told(f"ExecStart={PROGRAM} serve --tp 2")
    found = change_for(seen, Wanted((PROGRAM, "serve", "--x", "50% of $A"), {"B": "c"}, "/srv"))
    assert found is not None and found.path == "/etc/systemd/system/chat.service.d/relaunch.conf"
    assert found.text.splitlines()[1:] == [
        "[Service]",
        'Environment="B=c"',
        "WorkingDirectory=/srv",
        "ExecStart=",
        f'ExecStart={PROGRAM} serve --x "50%% of $$A"',
    ]


@pytest.mark.parametrize(
    ("seen", "argv", "reason"),
    [
        (told(f"ExecStart={PROGRAM} serve", containers=True), (PROGRAM, "x"), "can lose their cards"),
        (told("ExecStart=/usr/local/bin/chat.sh"), (PROGRAM, "x"), "by a script"),
        (told("ExecStart=/bin/bash -c 'x'"), (PROGRAM, "x"), "by a script"),
        (told(f"ExecStart={PROGRAM} serve", of_login=True), (PROGRAM, "x"), "of a login's own systemd"),
        (told(f"ExecStart={PROGRAM} serve"), ("vllm", "x"), "the whole path"),
        (told("ExecStart=-/bin/a"), (PROGRAM,), "could not be read: The unit's command is not a plain one"),
        (
            told(f"ExecStart={PROGRAM}", shown={"NeedDaemonReload": "yes"}),
            (PROGRAM,),
            "since systemd read them",
        ),
        (
            told(f"ExecStart={PROGRAM} $A\nEnvironmentFile={ENV}", env=Unknown("Permission denied")),
            (PROGRAM,),
            "Permission denied",
        ),
    ],
)
def test_where_it_cannot_be_changed_that_is_said(seen: UnitTold, argv: tuple[str, ...], reason: str) -> None:
    with pytest.raises(CannotChange, match=re.escape(reason)):
        change_for(seen, Wanted(argv))


def test_words_of_a_variable_split_as_a_shell_would_for_the_plain_ones() -> None:
    words = ["--a", "b c", "d"]
    assert split_words(as_value(words), escapes=False) == shlex.split(as_value(words)) == words


RUNS = (PROGRAM, "serve", "m")
COMMAND = f"ExecStart={' '.join(RUNS)}"
SECRETS = "/etc/systemd/system/chat.service.d/relaunch.secrets"


def test_a_unit_is_made_to_read_its_secrets_once() -> None:
    wanted = Wanted(RUNS, variables=("HF_TOKEN",))
    change = change_for(told(COMMAND), wanted)
    assert change is not None and change.path.endswith("chat.service.d/relaunch.conf")
    assert change.text.splitlines()[1:] == ["[Service]", f"EnvironmentFile={SECRETS}"]
    assert change_for(told(f"{COMMAND}\nEnvironmentFile=-{SECRETS}"), wanted) is None
    assert change_for(told(f"{COMMAND}\nEnvironmentFile={SECRETS}"), Wanted(RUNS)) is None, "an empty file does no harm"


def test_what_our_drop_in_says_already_stays() -> None:
    own = "# Written by Relaunch\n[Service]\nExecStart=\nExecStart=/opt/venv/bin/sglang serve m\n\n"
    change = change_for(told(COMMAND, own_drop_in=own), Wanted(RUNS, variables=("HF_TOKEN",)))
    assert change is not None and change.text == f"{own.rstrip()}\nEnvironmentFile={SECRETS}\n"


def test_changed_flags_and_secrets_come_in_one_file() -> None:
    text = f"ExecStart={PROGRAM} $ARGS\nEnvironmentFile={ENV}"
    wanted = Wanted((PROGRAM, "serve", "other"), variables=("HF_TOKEN",))
    change = change_for(told(text, env="ARGS=serve m\n"), wanted)
    assert change is not None and "ExecStart=/opt/venv/bin/sglang serve other" in change.text
    assert f"EnvironmentFile={SECRETS}" in change.text
    known = change_for(told(f"{text}\nEnvironmentFile={SECRETS}", env="ARGS=serve m\n"), wanted)
    assert known is not None and known.path == ENV and [*known.lines] == ["ARGS"], "never in the file of the secrets"


KEY = "/etc/systemd/system/chat.service.d/relaunch.settings.yaml"


def test_an_engine_that_takes_its_key_from_a_file_is_told_where_it_is() -> None:
    wanted = Wanted(RUNS, settings=True)
    change = change_for(told(COMMAND), wanted)
    assert change is not None and f"ExecStart={' '.join(RUNS)} --config {KEY}\n" in change.text
    assert "EnvironmentFile" not in change.text
    assert change_for(told(f"{COMMAND} --config {KEY}"), wanted) is None
    without = change_for(told(f"{COMMAND} --config {KEY}"), Wanted(RUNS))
    assert without is not None and "--config" not in without.text


def test_it_is_told_by_the_environment_file_where_containers_run() -> None:
    unit = told(f"ExecStart={PROGRAM} $ARGS\nEnvironmentFile={ENV}", env="ARGS=serve m\n", containers=True)
    change = change_for(unit, Wanted(RUNS, settings=True))
    assert change is not None and change.lines == {"ARGS": f'ARGS="serve m --config {KEY}"'}


@pytest.mark.parametrize(
    ("more", "why"),
    [({"of_login": True}, "no secrets to those"), ({"shown": {"DynamicUser": "yes"}}, "User= of its own")],
)
def test_a_key_that_could_not_be_for_the_unit_alone_is_not_given(more: dict[str, Any], why: str) -> None:
    with pytest.raises(CannotChange, match=why):
        change_for(told(COMMAND, **more), Wanted(RUNS, settings=True))


@pytest.mark.parametrize(
    ("more", "why"), [({"containers": True}, "can lose their cards"), ({"of_login": True}, "no secrets to those")]
)
def test_where_systemd_may_not_read_its_files_again_no_secrets_are_given(more: dict[str, bool], why: str) -> None:
    with pytest.raises(CannotChange, match=why):
        change_for(told(COMMAND, **more), Wanted(RUNS, variables=("HF_TOKEN",)))
    given = told(f"{COMMAND}\nEnvironmentFile={SECRETS}", **more)
    assert change_for(given, Wanted(RUNS, variables=("HF_TOKEN",))) is None
