"""Which variables of a running server a restart must give it again."""

import pytest

from deployments.discovery.environment import NotReadable, given_again, read_environ

LOGIN = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HF_HOME": "/data/hf"}


def environ(**more: str) -> dict[str, str]:
    return {**LOGIN, **more}


@pytest.mark.parametrize(
    ("more", "plain"),
    [
        ({"NCCL_DEBUG": "WARN"}, {"NCCL_DEBUG": "WARN"}),
        ({"ANYTHING_ELSE": ""}, {"ANYTHING_ELSE": ""}),
        ({"PATH": "/venv/bin:/usr/bin"}, {"PATH": "/venv/bin:/usr/bin"}),
        ({"HF_HOME": "/data/hf"}, {}),
        ({"SSH_CONNECTION": "10.0.0.1 2 3 4", "TMUX": "x", "PWD": "/srv", "_": "/usr/bin/env", "SHLVL": "2"}, {}),
        ({"INVOCATION_ID": "0123", "JOURNAL_STREAM": "8:1", "NOTIFY_SOCKET": "/run/x"}, {}),
        ({"RELAUNCH_LAUNCH_ID": "another panel's", "BASH_FUNC_x%%": "() { :; }"}, {}),
        ({"LD_LIBRARY_PATH": "/opt/cuda/lib64"}, {"LD_LIBRARY_PATH": "/opt/cuda/lib64"}),
    ],
)
def test_what_differs_from_the_login_counts(more: dict[str, str], plain: dict[str, str]) -> None:
    given = given_again(environ(**more), LOGIN)
    assert (given.plain, given.secret, given.left) == (plain, {}, ())


def test_secrets_are_told_apart_by_name_and_by_look() -> None:
    given = given_again(environ(HF_TOKEN="hf_0123456789abcdef", NOTE="sk-0123456789abcdef0123"), LOGIN)
    assert given.plain == {} and sorted(given.secret) == ["HF_TOKEN", "NOTE"]
    assert "hf_0123456789abcdef" not in repr(given)


def test_what_no_revision_can_hold_is_named() -> None:
    given = given_again(environ(http_proxy="http://proxy:3128", BANNER="one\ntwo"), LOGIN)
    assert given.left == ("BANNER", "http_proxy") and given.plain == {}


@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_AUDIT"])
def test_what_makes_another_program_of_it_is_refused(name: str) -> None:
    with pytest.raises(NotReadable, match=name):
        given_again(environ(**{name: "libx.so"}), LOGIN)


def test_it_is_read_as_the_kernel_has_it() -> None:
    assert read_environ(b"PATH=/bin\0A=b=c\0EMPTY=\0garbage\0") == {"PATH": "/bin", "A": "b=c", "EMPTY": ""}
    assert read_environ(b"") == {}, "env -i"


@pytest.mark.parametrize("content", [b"sglang::server" + b"\0" * 40, b"\0" * 300, b"A=b\0"])
def test_what_the_process_has_written_over_is_not_its_environment(content: bytes) -> None:
    with pytest.raises(NotReadable, match="written over"):
        read_environ(content)


def test_a_name_that_is_no_text_can_be_named_on_a_page() -> None:
    given = given_again(read_environ(b"PATH=/bin\0\xff\xfeX=1\0"), {"PATH": "/bin"})
    assert [name.encode() for name in given.left] == [b"\\udcff\\udcfeX"]
