"""The command of a running server as a revision that starts exactly that again."""

import pytest

from deployments.discovery.environment import Given
from deployments.discovery.found import Found, HeldCard
from deployments.discovery.naming import propose
from deployments.discovery.readback import CannotReadBack, read_back, read_back_managed, seeing_all_cards, without_key
from deployments.engines.registry import ENGINES
from deployments.plan.passing import API_KEY

SGLANG, VLLM, LLAMA = ENGINES["sglang"], ENGINES["vllm"], ENGINES["llama_server"]
ARGV = ["/venv/bin/python", "-m", "sglang.launch_server", "--model-path", "/models/qwen", "--port", "30000"]
KEY = "sk-0123456789abcdef"


def test_every_word_is_kept_with_environment_and_directory() -> None:
    json = ["--speculative-config", '{"a": [1, "b c"]}', "--chat-template", "it's $HOME"]
    found = read_back(SGLANG, [*ARGV, *json], given=Given({"A": "b"}), workdir="/srv", program="/venv/bin/python")
    assert found.command.argv == [*ARGV, *json]
    assert (found.command.env, found.command.workdir, found.notes) == ({"A": "b"}, "/srv", ())


def test_a_program_that_was_searched_for_is_named_by_its_place() -> None:
    found = read_back(SGLANG, ["python", *ARGV[1:]], given=Given(), workdir="/", program="/venv/bin/python")
    assert found.command.argv == ARGV
    kept = read_back(SGLANG, ["./bin/python", *ARGV[1:]], given=Given(), workdir="/v", program="/v/./bin/python")
    assert kept.command.argv[0] == "./bin/python", "from its own directory"


@pytest.mark.parametrize("words", [["--api-key", KEY], [f"--api-key={KEY}"]])
def test_the_key_leaves_the_command(words: list[str]) -> None:
    found = read_back(SGLANG, [*ARGV, *words, "--tp", "2"], given=Given(), workdir="/", program=ARGV[0])
    assert found.command.argv == [*ARGV, "--tp", "2"]
    assert found.secrets == {API_KEY: KEY} and KEY not in repr(found)
    assert "becomes a secret" in found.notes[0]


def test_a_key_in_the_engines_own_variable_is_the_api_key() -> None:
    given = Given(secret={"VLLM_API_KEY": KEY, "HF_TOKEN": KEY})
    found = read_back(VLLM, ["/v/vllm", "serve", "/m"], given=given, workdir="/", program="/v/vllm")
    assert found.secrets == {API_KEY: KEY, "HF_TOKEN": KEY}
    assert found.notes == ("API key, HF_TOKEN of its environment becomes a secret of the deployment.",)


@pytest.mark.parametrize(
    ("engine", "argv", "why"),
    [
        (VLLM, ["/v/vllm", "serve", "/m", "--api-key", "a1234567", "b1234567"], "more than one value"),
        (SGLANG, [*ARGV, "--api-key", KEY, "--api-key", KEY], "more than once"),
        (SGLANG, [*ARGV, "--admin-api-key", KEY], "--admin-api-key"),
        (SGLANG, [*ARGV, "--config", "/etc/s.yaml", "--api-key", KEY], "its own --config"),
        (SGLANG, [*ARGV, "--json", "{\n}"], "line break"),
        (SGLANG, ["sudo", *ARGV], "another user"),
    ],
)
def test_what_cannot_be_read_back_exactly_is_refused(engine: object, argv: list[str], why: str) -> None:
    with pytest.raises(CannotReadBack, match=why) as refused:
        read_back(engine, argv, given=Given(), workdir="/", program=argv[0])  # type: ignore[arg-type]
    assert KEY not in str(refused.value)


def test_what_its_unit_keeps_is_left_to_the_unit() -> None:
    found = read_back_managed(SGLANG, ARGV, keeper="systemd unit chat.service")
    assert (found.command.argv, found.command.env, found.command.workdir) == (ARGV, {}, "")
    assert "systemd unit chat.service" in found.notes[0]
    with pytest.raises(CannotReadBack, match="Take the key out there first"):
        read_back_managed(SGLANG, [*ARGV, "--api-key", KEY], keeper="systemd unit chat.service")


def test_without_a_key_nothing_is_taken_away() -> None:
    assert without_key(SGLANG, ARGV) == (ARGV, "")


@pytest.mark.parametrize(
    ("held", "variable"),
    [
        ({1}, "0,1,2,3"),
        ({0, 2}, "0,1,2,3"),
        ({0}, None),
        ({0, 1}, None),
        ({0, 1, 2, 3}, None),
        (set(), None),
    ],
)
def test_only_who_uses_others_than_the_first_cards_must_go_on_seeing_all(held: set[int], variable: str | None) -> None:
    read = read_back(LLAMA, ["/b/llama-server", "-m", "/m.gguf"], given=Given(), workdir="/", program="")
    seen = seeing_all_cards(read, cards_here=4, held=held)
    assert seen.command.env.get("CUDA_VISIBLE_DEVICES") == variable
    assert len(seen.notes) == (variable is not None), "a person is told"


def test_who_was_told_its_cards_goes_on_being_told() -> None:
    given = Given({"CUDA_VISIBLE_DEVICES": "2"})
    read = read_back(LLAMA, ["/b/llama-server", "-m", "/m.gguf"], given=given, workdir="/", program="")
    assert seeing_all_cards(read, cards_here=4, held={2}) == read


@pytest.mark.parametrize(
    ("argv", "taken", "name"),
    [
        (ARGV, (), "qwen"),
        (ARGV, ("qwen", "qwen-2"), "qwen-3"),
        ([*ARGV, "--served-model-name", "Chat Prod"], (), "chat-prod"),
        (["python", "-m", "sglang.launch_server", "--model-path", "Qwen/Qwen3-27B"], (), "qwen3-27b"),
        (["python", "-m", "sglang.launch_server"], (), "sglang"),
        (["python", "-m", "sglang.launch_server", "--model-path", "/models/???"], (), "sglang"),
    ],
)
def test_a_name_is_proposed_that_nobody_has(argv: list[str], taken: tuple[str, ...], name: str) -> None:
    assert propose(SGLANG, argv, taken=taken) == name


def test_what_was_found_is_stored_and_read_as_it_was() -> None:
    found = Found(
        "boot", 7, 70, "pid:[1]", "sglang", ("python", "-m"), 30000, "2026-11-30T12:00:00+00:00",
        cards=(HeldCard("GPU-1", "GPU 1", 5), HeldCard("GPU-2", "GPU 2")), notes=("a",), argv=tuple(ARGV),
        env={"A": "b"}, secrets={"API key": "sealed"},
    )  # fmt: skip
    assert Found.of(found.as_data) == found


def test_a_variable_that_holds_the_key_is_a_secret_whatever_it_is_called() -> None:
    given = Given({"CHAT_K": KEY, "URL": f"http://x/{KEY}", "A": "b"})
    found = read_back(SGLANG, [*ARGV, "--api-key", KEY], given=given, workdir="/", program=ARGV[0])
    assert found.command.env == {"A": "b"}
    assert found.secrets == {API_KEY: KEY, "CHAT_K": KEY, "URL": f"http://x/{KEY}"}


def test_a_key_that_stands_elsewhere_in_the_command_is_not_kept_there() -> None:
    with pytest.raises(CannotReadBack, match="stands in its command line too"):
        read_back(SGLANG, [*ARGV, "--api-key", KEY, "--served-model-name", KEY], given=Given(), workdir="/", program="")
