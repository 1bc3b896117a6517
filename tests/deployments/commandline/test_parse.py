"""Pasted command lines become words; what would need a shell is refused in words."""

import pytest

from deployments.commandline import Command, check_argv, check_env, compose, parse


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("python -m x --port 1", Command(["python", "-m", "x", "--port", "1"])),
        ("  python \\\n  -m x \\\r\n --y  ", Command(["python", "-m", "x", "--y"])),
        ("A=1 B='two words' python", Command(["python"], {"A": "1", "B": "two words"})),
        ("env A=1 nohup python > log 2>&1 &", Command(["python"], {"A": "1"})),
        ("nohup setsid exec python >> /tmp/x.log 2>/dev/null </dev/null &", Command(["python"])),
        ("cd /opt/x && A=1 python", Command(["python"], {"A": "1"}, "/opt/x")),
        ("export X=1; cd /srv && python", Command(["python"], {"X": "1"}, "/srv")),
        (
            "cd /srv; export X=1 Y='a b' && Z=3 python",
            Command(["python"], {"X": "1", "Y": "a b", "Z": "3"}, "/srv"),
        ),
        ("cd '/opt/my models' && python", Command(["python"], {}, "/opt/my models")),
        ("python &> all.log", Command(["python"])),
        ('python --args \'{"a": "> b"}\'', Command(["python", "--args", '{"a": "> b"}'])),
        ('python --args "{\\"a\\": 1}"', Command(["python", "--args", '{"a": 1}'])),
        ("python --name a#b", Command(["python", "--name", "a#b"])),
        ("python --x=1 A=2", Command(["python", "--x=1", "A=2"])),
        ("python --price 5$", Command(["python", "--price", "5$"])),
    ],
)
def test_what_is_understood(text: str, parsed: Command) -> None:
    assert parse(text) == parsed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Write the command"),
        ("A=1", "Write the command"),
        ("nohup &", "Write the command"),
        ("python\0", "NUL"),
        ("python 'x", "quotes do not match"),
        ("cd /srv\npython a\npython b", "one command"),
        ("python | less", "'|' needs a shell"),
        ("python && echo ok", "'&&' needs a shell"),
        ("a && python", "'&&' needs a shell"),
        ("cd && python", "'&&' needs a shell"),
        ("python; echo", "';' needs a shell"),
        ("export X=1; ls /srv; python", "Variables (X=1) belong into Environment"),
        ("export X; python", "';' needs a shell"),
        ("cd /a && cd /b && python", "into Working directory"),
        ("python | tee log | less", "'|' needs a shell"),
        ("python & disown & echo", "'&' needs a shell"),
        ("python >", "file's name is missing"),
        ("python <(ls)", "needs a shell"),
        ("; python", "';' needs a shell"),
        ("export X=$HOME; python", "filled in by a shell"),
        ("python || true", "'||' needs a shell"),
        ("(python)", "needs a shell"),
        ("python & echo", "'&' needs a shell"),
        ("python --x `hostname`", "run by a shell"),
        ("python --x $(hostname)", "shell"),
        ("A=$(hostname) python", "shell"),
        ("A=`hostname` python", "run by a shell"),
        ("python --model $MODEL", "filled in by a shell"),
        ("python --model ${MODEL}/x", "filled in by a shell"),
        ("HF_HOME=$HOME/hf python", "filled in by a shell"),
        ("cd $HOME && python", "filled in by a shell"),
        ("python --api-key abc", "show the secret"),
        ("python --api-key=abc", "show the secret"),
        ("python --hf-token=abc", "show the secret"),
        ("python --api abc", "show the secret"),
        ("python --api_k=abc", "show the secret"),
        ("python --api-keys abc", "show the secret"),
        ("python --ssl-keyfile-pass abc", "show the secret"),
        ("python --auth u:abc", "show the secret"),
        ("python https://u:abc@host/x", "show the secret"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse(text)
    assert words in str(refused.value)
    assert str(refused.value).endswith(".") or "for example" in str(refused.value)
    assert "abc" not in str(refused.value), "a secret is not repeated"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "empty"),
        ([" "], "empty"),
        (["a", "b\nc"], "line break"),
        (["a\0"], "NUL"),
        (["a"] * 1001, "too long"),
        (["a", "b" * 100_001], "too long"),
        (["a", "--admin-api-key", "x"], "show the secret"),
    ],
)
def test_commands_that_cannot_be_right(argv: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_argv(argv)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"lower": "x"}, "capital letters"),
        ({"A B": "x"}, "capital letters"),
        ({"A;rm": "x"}, "capital letters"),
        ({"LD_PRELOAD": "x"}, "loaded"),
        ({"BASH_ENV": "x"}, "loaded"),
        ({"HF_TOKEN": "x"}, "secret"),
        ({"OPENAI_API_KEY": "x"}, "secret"),
        ({"DB_PASSWORD": "x"}, "secret"),
        ({"DB_PASS": "x"}, "secret"),
        ({"MYSQL_PWD": "x"}, "secret"),
        ({"REDIS_AUTH": "x"}, "secret"),
        ({"A": "x\ny"}, "line break"),
        ({"A": "x\0"}, "NUL"),
        ({"A": "x" * 10_001}, "too long"),
    ],
)
def test_environments_that_are_refused(env: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_env(env)


def test_a_usual_command_and_environment_pass() -> None:
    check_argv(["python", "-m", "x", "--flag", "--api-key"])
    check_argv(["x", "--allow-credentials", "--ssl-keyfile", "/k", "--max-total-tokens", "9", "--api", "--port", "1"])
    check_env({"CUDA_VISIBLE_DEVICES": "0,1", "NCCL_DEBUG": ""})


def test_a_list_of_compose_that_never_ends_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="Write the list after command:"):
        compose.command_of(f"command: {'[' * 50_000}")
