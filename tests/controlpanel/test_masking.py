"""Masking as tables (what is hidden, what is not), and as laws that hold for any text and any cut."""

import itertools
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlpanel.masking import LONGEST_LINE, MASK, StreamMasker, is_secret_name, mask_argv, mask_text, mask_values

KEY_BLOCK = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nc2VjcmV0\n-----END OPENSSH PRIVATE KEY-----"

HIDDEN = [
    ("curl -H 'Authorization: Bearer abc.DEF-123456'", "abc.DEF-123456"),
    ("key sk-proj-abcdefghijklmnop in use", "sk-proj-abcdefghijklmnop"),
    ("logging in with hf_AbCdEfGhIjKl", "hf_AbCdEfGhIjKl"),
    ("git clone https://ana:hunter2@example.com/x.git", "hunter2"),
    ("DATABASE_URL=postgres://relaunch:s3cr3t@db/relaunch", "s3cr3t"),
    ("python -m sglang.launch_server --api-key topsecret --port 30000", "topsecret"),
    ("llama-server --api-key=topsecret", "topsecret"),
    ("export HF_TOKEN=abc123def", "abc123def"),
    ("AWS_SECRET_ACCESS_KEY='wJalrXUtnFEMI'", "wJalrXUtnFEMI"),
    ('{"api_key": "topsecret", "port": 1}', "topsecret"),
    ("{'token': 'topsecret'}", "topsecret"),
    ("ServerArgs(model_path='m', api_key='topsecret', port=30000)", "topsecret"),
    ("X-Api-Key: topsecret", "topsecret"),
    ("password: hunter2", "hunter2"),
    ("DB_PASSWORD=12345678", "12345678"),
    ("apiKey=topsecret", "topsecret"),
    (f"before\n{KEY_BLOCK}\nafter", "b3BlbnNzaC1rZXktdjEAAAAA"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIcutshort", "MIIcutshort"),
    ('HF_TOKEN="a value whose quote is cut', "value whose"),
]

UNCHANGED = [
    "Decode batch. #running-req: 1, #token: 93, token usage: 0.00, gen throughput (token/s): 71.2",
    "ServerArgs(model_path='/m', tokenizer_path='/m', api_key=None, skip_tokenizer_init=False, max_total_tokens=1000)",
    "TOKENIZERS_PARALLELISM=false",
    "max_new_tokens=128 num_key_value_heads=8 eos_token='</s>' pad_token=<pad>",
    "the key question is whether the token was spent",
    "http://10.0.0.1:30000/v1/models and user@example.com:22",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFoo ana@laptop",
    "SECRET_KEY_FILE=/run/secrets/key",
    "a basic example, the bearer documents",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB",
    "",
]


@pytest.mark.parametrize(("text", "secret"), HIDDEN)
def test_a_secret_is_hidden(text: str, secret: str) -> None:
    masked = mask_text(text)

    assert secret not in masked and MASK in masked


@pytest.mark.parametrize("text", UNCHANGED)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert mask_text(text) == text


@pytest.mark.parametrize(("text", "secret"), HIDDEN)
def test_masking_twice_changes_nothing_more(text: str, secret: str) -> None:
    assert mask_text(mask_text(text)) == mask_text(text)


def test_what_is_around_a_secret_stays() -> None:
    assert mask_text("--api-key topsecret --port 1") == f"--api-key {MASK} --port 1"
    assert mask_text(f"a\n{KEY_BLOCK}\nb") == f"a\n{MASK}\nb"


def test_known_secrets_are_hidden_the_longer_one_first() -> None:
    assert mask_text("open sesame!", known=["open", "open sesame"]) == f"{MASK}!"
    assert mask_text("an ox", known=["ox"]) == "an ox"


@pytest.mark.parametrize(
    ("argv", "masked"),
    [
        (["serve", "--api-key", "-x y"], ["serve", "--api-key", MASK]),
        (["serve", "--api-key=a b", "--port", "1"], ["serve", f"--api-key={MASK}", "--port", "1"]),
        (["env", "HF_TOKEN=abc", "python3"], ["env", f"HF_TOKEN={MASK}", "python3"]),
        (["--max-new-tokens", "12"], ["--max-new-tokens", "12"]),
    ],
)
def test_a_command_line(argv: list[str], masked: list[str]) -> None:
    assert mask_argv(argv) == masked


def test_nested_values() -> None:
    masked = mask_values({"env": {"HF_TOKEN": "abc", "PORT": 1}, "argv": ("x", "--api-key", "abc"), "n": None})

    assert masked == {"env": {"HF_TOKEN": MASK, "PORT": 1}, "argv": ["x", "--api-key", MASK], "n": None}


@pytest.mark.parametrize(
    ("name", "secret"),
    [("HF_TOKEN", True), ("--api-key", True), ("apiKey", True), ("eos_token", False), ("tokenizer", False),
     ("public_key", False), ("KEY_FILE", False), ("max_total_tokens", False), ("PASSWORD", True)],
)  # fmt: skip
def test_names(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


SECRETS = st.lists(st.text(alphabet="abAB1_\n", min_size=4, max_size=12), min_size=1, max_size=3)
PLAIN = st.text(alphabet="abAB1_ \n\r", max_size=30)


@given(secrets=SECRETS, pieces=st.lists(PLAIN, max_size=6), data=st.data())
def test_no_cutting_lets_a_known_secret_through(secrets: list[str], pieces: list[str], data: st.DataObject) -> None:
    words = [word for piece in pieces for word in (piece, data.draw(st.sampled_from(secrets)))]
    text = "".join(words)
    shown = stream(text, known=secrets, cuts=data.draw(cuts_of(text)))

    assert not [secret for secret in secrets if secret in shown]


@given(lines=st.lists(st.sampled_from([text for text, _ in HIDDEN] + UNCHANGED), max_size=6), data=st.data())
def test_a_stream_is_masked_as_the_whole_would_be(lines: list[str], data: st.DataObject) -> None:
    closed = [line for line in lines if "cutshort" not in line]
    text = "".join(f"{line}\n" for line in closed)

    assert stream(text, known=[], cuts=data.draw(cuts_of(text))) == mask_text(text)


@given(text=st.text(alphabet=string.ascii_letters + " .,\n\r\t-#()", max_size=200), data=st.data())
def test_a_stream_of_plain_words_is_unchanged(text: str, data: st.DataObject) -> None:
    assert stream(text, known=["a secret 1"], cuts=data.draw(cuts_of(text))) == text


@given(st.text(max_size=400))
def test_any_text_can_be_masked_and_is_then_stable(text: str) -> None:
    masked = mask_text(text)
    assert mask_text(masked) == masked


def test_lines_come_out_as_soon_as_they_end() -> None:
    masker = StreamMasker()

    assert masker.feed("loading 10%\rloading") == "loading 10%\r"
    assert masker.feed(" 20%\n") == "loading 20%\n"


def test_a_line_without_end_comes_out_in_pieces() -> None:
    masker = StreamMasker(known=["secret-in-the-middle"])
    shown = masker.feed("x" * LONGEST_LINE + "secret-in") + masker.feed("-the-middle" + "y" * LONGEST_LINE)

    assert len(shown) > LONGEST_LINE
    assert "secret" not in shown + masker.flush()


ON_ONE_LINE = [(text, secret) for text, secret in HIDDEN if "\n" not in text]
FILLING = st.text(alphabet='xz,;.:{}[]"', max_size=150)


@given(fillings=st.lists(FILLING, min_size=2, max_size=6), data=st.data())
def test_a_long_line_is_never_cut_within_a_secret(fillings: list[str], data: st.DataObject) -> None:
    hidden = [data.draw(st.sampled_from(ON_ONE_LINE)) for _ in fillings]
    # A quote that is still open would make the value of another name of the next one.
    text = "".join(f"{'z' * 90}{filling}\"' {line}" for filling, (line, _) in zip(fillings, hidden, strict=True))
    masker, shown, fed = StreamMasker(longest_line=200), "", 0
    for begin, end in itertools.pairwise([0, *sorted(data.draw(cuts_of(text))), len(text)]):
        shown += masker.feed(text[begin:end])
        fed += end - begin
        assert 0 <= masker.waiting <= min(fed, 400)
    shown += masker.flush()

    assert masker.waiting == 0
    assert not [piece for _, secret in hidden for piece in pieces_of(secret) if piece in shown]


def pieces_of(secret: str) -> list[str]:
    return [secret[begin : begin + 5] for begin in range(len(secret) - 4)]


@pytest.mark.parametrize("before", range(LONGEST_LINE // 2 - 24, LONGEST_LINE // 2 + 2, 5))
@pytest.mark.parametrize(
    "line", ["--api-key=topsecret9,", '"token":"top secret9",', "://ana:topsecret9@h/", "-hf_topsecret9,"]
)
def test_a_secret_at_the_cut_of_a_line_without_a_blank(before: int, line: str) -> None:
    text = "," * before + line + "," * LONGEST_LINE
    masker = StreamMasker()
    shown = masker.feed(text[: LONGEST_LINE + 1])

    assert shown and masker.waiting < LONGEST_LINE
    shown += masker.feed(text[LONGEST_LINE + 1 :]) + masker.flush()
    assert shown == mask_text(text) and "secret" not in shown


@pytest.mark.parametrize("begin", ["Bearer ", "token='", "hf_", "x://ana:pw@h?api_key="])
def test_a_secret_without_end_hides_its_line_and_is_not_kept(begin: str) -> None:
    masker = StreamMasker()
    shown = masker.feed("before " + begin)
    for _ in range(20):
        shown += masker.feed("a1B2" * 8192)
    assert masker.waiting > 18 * 32768 and len(masker._held) <= 2 * LONGEST_LINE

    shown += masker.feed("c3\nafter\n")
    assert masker.waiting == 0
    assert "before" in shown and "a1B2" not in shown and shown.endswith(f"{MASK}\nafter\n")


def test_what_waits_is_counted_in_bytes() -> None:
    masker = StreamMasker()

    assert masker.feed("done\né🙂\udcff") == "done\n"
    assert masker.waiting == 7
    assert masker.flush() == "é🙂\udcff" and masker.waiting == 0


def test_a_private_key_waits_until_it_has_ended_or_is_too_long_to_be_one() -> None:
    begin = "-----BEGIN RSA PRIVATE KEY-----\n"
    masker = StreamMasker()
    assert masker.feed(f"before\n{begin}MIIone\n") == "before\n"
    assert masker.feed("MIItwo\n-----END RSA PRIVATE KEY-----\nafter\n") == f"{MASK}\nafter\n"

    text = begin + "MIIthree\n" * 5000
    shown = "".join(masker.feed(text[at : at + 1000]) for at in range(0, len(text), 1000)) + masker.flush()
    assert shown == mask_text(text)


def cuts_of(text: str) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, len(text)), max_size=8)


def stream(text: str, *, known: list[str], cuts: list[int]) -> str:
    masker = StreamMasker(known=known)
    edges = [0, *sorted(cuts), len(text)]
    pieces = [text[begin:end] for begin, end in itertools.pairwise(edges)]
    return "".join(masker.feed(piece) for piece in pieces) + masker.flush()


@pytest.mark.parametrize("secret", ["sk-abcdefghijklmnop", "hf_abcdefghijklmnop", "ghp_abcdefghijklmnop"])
def test_a_secret_right_after_a_colour_is_hidden(secret: str) -> None:
    assert secret not in mask_text(f"\x1b[32m{secret}\x1b[0m")
