"""Masking as tables (what is hidden, what is not), and as laws that hold for any text and any cut."""

import itertools
import string
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlpanel.masking import (
    LONGEST_LINE,
    MASK,
    StreamMasker,
    is_secret_name,
    mask_argv,
    mask_text,
    mask_values,
    names,
)

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
    ("'api_key': ['topsecret'], 'port': 1", "topsecret"),
    ("api_key=['first-one', 'topsecret'], port=1", "topsecret"),
    ("api_key=['topsecret', 'last-one'], port=1", "topsecret"),
    ("api_key=('topsecret',)", "topsecret"),
    ("api_key=[['first-one'], ['topsecret']]", "topsecret"),
    ("api_key=['a list that is cut, topsecret", "topsecret"),
    ("api_key=b'topsecret'", "topsecret"),
    ("api_key=SecretStr('topsecret')", "topsecret"),
    ('"api_key": {"value": "topsecret"}', "topsecret"),
    (r"{\"api_key\": \"topsecret\", \"port\": 1}", "topsecret"),
    (r'password="a\"topsecret"', "topsecret"),
    ("password='hun'topsecret", "topsecret"),
    ("password=it'topsecret", "topsecret"),
    ("password=hun;topsecret", "topsecret"),
    ("password=hun,topsecret", "topsecret"),
    ("api_key          = 'topsecret'", "topsecret"),
    (":api_key => 'topsecret'", "topsecret"),
    ("<password>topsecret</password>", "topsecret"),
    ("os.environ['HF_TOKEN'] = 'topsecret'", "topsecret"),
    ("2FA_SECRET=topsecret", "topsecret"),
    ("api_key=12345678", "12345678"),
    ("Authorization: Token topsecret", "topsecret"),
    ("authorization: topsecret", "topsecret"),
    ("curl -H 'authorization: Digest a=b, topsecret' x", "topsecret"),
    ("-H 'Cookie: a=first-one; b=topsecret'", "topsecret"),
    ("[(b'host', b'h'), (b'authorization', b'Bearer topsecret')]", "topsecret"),
    ("('HF_TOKEN', 'topsecret')", "topsecret"),
    ("['serve', '--api-key', 'topsecret', '--port', '1']", "topsecret"),
    ("serve --api-key first-one topsecret --port 1", "topsecret"),
    ("serve --api-key first-one 'topsecret' --port 1", "topsecret"),
    ("https://topsecret@example.com/x", "topsecret"),
    ("https://ana:p@topsecret@example.com/x", "topsecret"),
    ("https://topsecret:x-oauth-basic@github.com", "topsecret"),
    ("GET /v1?sig=topsecret&port=1", "topsecret"),
    ("X-Amz-Signature=topsecret", "topsecret"),
    ("\x1b[33mapi_key\x1b[0m=\x1b[36mtopsecret\x1b[0m", "topsecret"),
    ("\x1b[1m'api_key'\x1b[0m: \x1b[1m[\x1b[0m\x1b[32m'topsecret'\x1b[0m\x1b[1m]\x1b[0m", "topsecret"),
    ("hf_\x1b[1mAbCdEfGhIjKl", "AbCdEfGhIjKl"),
    ("DB_PASS=topsecret MYSQL_PWD=x", "topsecret"),
    ('{\n  "api_key": [\n    "first-one",\n    "topsecret"\n  ],\n  "port": 1\n}', "topsecret"),
    ('"api_key": [\r\n    "cutshort topsecret"', "topsecret"),
]

UNCHANGED = [
    "Decode batch. #running-req: 1, #token: 93, token usage: 0.00, gen throughput (token/s): 71.2",
    "ServerArgs(model_path='/m', tokenizer_path='/m', api_key=None, skip_tokenizer_init=False, max_total_tokens=1000)",
    "TOKENIZERS_PARALLELISM=false",
    "write the line “LOGIN ALL=(root) NOPASSWD: ALL” with the name of the login",
    "max_new_tokens=128 num_key_value_heads=8 eos_token='</s>' pad_token=<pad>",
    "the key question is whether the token was spent",
    "http://10.0.0.1:30000/v1/models and user@example.com:22",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFoo ana@laptop",
    "SECRET_KEY_FILE=/run/secrets/key",
    "a basic example, the bearer documents",
    "ssh://git@host:22/x and ana@laptop, http://host:80/a@b",
    "auth: none, sig=11, pass=12, tokens: 93, tokens=[1, 2], the key: turn it",
    "api_keys=[], api_key='', token=[None], passwords={}, secret=(), password=None, credentials=...",
    "ServerArgs(api_key=None,admin_api_key=None,port=1)",
    "PWD=/srv/x OLDPWD=/ pwd=/srv/x",
    '"eos_token": "</s>", "allow_credentials": true, "num_tokens": [\n  1,\n  2\n]',
    "['key', 'token', 'password', 'name']",
    "KeyError: 'x' and forward_pass=fused",
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
        (["--api-key", "a", "b", "--port", "1"], ["--api-key", MASK, MASK, "--port", "1"]),
        (["--auth", "u:x", "--hf-token"], ["--auth", MASK, "--hf-token"]),
        (["--graph-tokens", "4", "8"], ["--graph-tokens", "4", "8"]),
        (['{"api_key": "a=b"}', "x"], [f'{{"api_key": "{MASK}"}}', "x"]),
        (["https://ana:pw@h/?api_key=x"], [f"https://{MASK}@h/?api_key={MASK}"]),
    ],
)
def test_a_command_line(argv: list[str], masked: list[str]) -> None:
    assert mask_argv(argv) == masked


def test_nested_values() -> None:
    masked = mask_values({"env": {"HF_TOKEN": "abc", "PORT": 1}, "argv": ("x", "--api-key", "abc"), "n": None})

    assert masked == {"env": {"HF_TOKEN": MASK, "PORT": 1}, "argv": ["x", "--api-key", MASK], "n": None}


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ({"api_key": ["X"]}, {"api_key": MASK}),
        ({"api_key": {"value": [{"x": "X"}]}}, {"api_key": MASK}),
        ({"password": 12, "api_key": 12, "tokens": 12}, {"password": MASK, "api_key": MASK, "tokens": 12}),
        ({"tokens": [1, 2], "api_key": [], "secret": None}, {"tokens": [1, 2], "api_key": [], "secret": None}),
        ({"token": False, "password": "None"}, {"token": False, "password": "None"}),
        ({"name": "HF_TOKEN", "value": "X"}, {"name": "HF_TOKEN", "value": MASK}),
        ({"flag": "--api-key", "running": "X", "new": None}, {"flag": "--api-key", "running": MASK, "new": None}),
        ({"flag": "HF_TOKEN=", "running": "X"}, {"flag": "HF_TOKEN=", "running": MASK}),
        ({"flag": "--max-new-tokens", "running": "4"}, {"flag": "--max-new-tokens", "running": "4"}),
        ([["authorization", "X"], ["HF_TOKEN=X", "y"]], [["authorization", MASK], [f"HF_TOKEN={MASK}", "y"]]),
    ],
)
def test_values_under_and_beside_a_name(value: object, masked: object) -> None:
    assert mask_values(value) == masked


SECRET_NAMES = """
HF_TOKEN HF_TOKEN_READ HUGGING_FACE_HUB_TOKEN OPENAI_API_KEY API_KEY_2 SECRET_KEY_BASE NEXT_PUBLIC_API_KEY NEW_PASSWORD
DB_PASS DB_PASS2 DB_PASSWORD HOST_PASSWORD MYSQL_PWD DB_PW PGPASSWORD REDIS_AUTH REDISCLI_AUTH GITHUB_PAT
AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN VAULT_SECRET_ID GOOGLE_CREDENTIALS
--api-key --api-keys --api_key --admin-api-key --hf-token -hft --auth --ssl-keyfile-password --access-tokens
apiKey api.key password passwd passphrase pwd Authorization Proxy-Authorization Cookie Set-Cookie X-Api-Key sig
X-Amz-Signature X-Amz-Credential PASSWORD clientSecret
""".split()  # noqa: SIM905
HARMLESS_NAMES = """
--max-total-tokens --tokenizer-path --tokenizer --num-tokens --kv-cache-dtype --key-value-heads --served-model-name
--tokenizer-mode --tokenizer-worker-num --skip-tokenizer-init --max-num-batched-tokens --max-prefill-tokens
--speculative-num-draft-tokens --speculative-token-map --long-prefill-token-threshold --collect-tokens-histogram
--prompt-tokens-buckets --bucket-time-to-first-token --return-tokens-as-token-ids --enable-prompt-tokens-details
--disable-custom-all-reduce --allow-credentials --no-auth --author --ssl-keyfile --ssl-key-file --api-key-file
--override-kv --cache-type-k --hf-repo --custom-sigquit-handler --enable-auto-tool-choice --decrypted-config-file
PATH PWD OLDPWD SSH_AUTH_SOCK XAUTHORITY TOKENIZERS_PARALLELISM HF_TOKEN_PATH HF_HUB_DISABLE_IMPLICIT_TOKEN
SGLANG_INIT_NEW_TOKEN_RATIO VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE AWS_ACCESS_KEY_ID KEY_FILE OLLAMA_KEEP_ALIVE
eos_token tokenizer public_key authorized_keys max_total_tokens num_key_value_heads forward_pass monkey bypass signal
passed keyboard cookiecutter patience
""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", HARMLESS_NAMES)
def test_names_that_hold_no_secret(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize("part", ["a", "=", '"', "["])
@pytest.mark.slow
def test_a_long_line_of_anything_is_masked_in_its_length(part: str) -> None:
    assert seconds_to_mask(part, length=2**20) < 30  # 1 or 2; one that looks back at all it has seen takes hours


@pytest.mark.parametrize(
    "part",
    [
        "'",
        "key=",
        '"key":',
        "token=[",
        "--api-key a ",
        "eyJ",
        "://a:",
        '\\"',
        "key=[\n",
        "\x1b[1m",
        "password=a;",
        "b'",
    ],
)
@pytest.mark.slow
def test_what_may_begin_a_secret_is_masked_in_its_length(part: str) -> None:
    assert seconds_to_mask(part, length=2**17) < 8


def test_a_log_without_secrets_costs_little_more_than_to_read_it() -> None:
    line = "[2026-12-01 03:00:00] Decode batch, #running-req: 3, #new-token: 512, token usage: 0.12, speed: 61.3\n"
    text = line * 2000
    assert mask_text(text) == text
    reading = seconds_of(lambda: [word for word in text.split() if word in line])
    masking = seconds_of(lambda: mask_text(text))
    assert masking < 8 * reading  # 3; one that looks at each name as what may hold a secret needs 15


def seconds_of(work: Callable[[], object]) -> float:
    """CPU of the quickest of five times."""

    def once() -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    return min(once() for _ in range(5))


def test_capitals_that_are_two_small_letters_move_nothing() -> None:
    assert mask_text("\u0130\u0130\u0130 HF_TOKEN=abc123def \u0130") == f"\u0130\u0130\u0130 HF_TOKEN={MASK} \u0130"


@given(name=st.lists(st.sampled_from([*names._ALWAYS, *names._AT_THE_END, *names._AT_THE_END_ALONE, "x", "_"])))
def test_what_holds_a_secret_is_looked_at(name: list[str]) -> None:
    joined = "".join(name)
    assert not is_secret_name(joined) or f"{joined}=abc123def" != mask_text(f"{joined}=abc123def")


def seconds_to_mask(part: str, *, length: int) -> float:
    began = time.process_time()
    mask_text(part * (length // len(part)))
    return time.process_time() - began


SECRETS = st.lists(st.text(alphabet="abAB1_\n", min_size=4, max_size=12), min_size=1, max_size=3)
PLAIN = st.text(alphabet="abAB1_ \n\r", max_size=30)


@given(secrets=SECRETS, pieces=st.lists(PLAIN, max_size=6), data=st.data())
@pytest.mark.long
def test_no_cutting_lets_a_known_secret_through(secrets: list[str], pieces: list[str], data: st.DataObject) -> None:
    words = [word for piece in pieces for word in (piece, data.draw(st.sampled_from(secrets)))]
    text = "".join(words)
    shown = stream(text, known=secrets, cuts=data.draw(cuts_of(text)))

    assert not [secret for secret in secrets if secret in shown]


@given(lines=st.lists(st.sampled_from([text for text, _ in HIDDEN] + UNCHANGED), max_size=6), data=st.data())
@pytest.mark.long
def test_a_stream_is_masked_as_the_whole_would_be(lines: list[str], data: st.DataObject) -> None:
    closed = [line for line in lines if "cutshort" not in line]
    text = "".join(f"{line}\n" for line in closed)

    assert stream(text, known=[], cuts=data.draw(cuts_of(text))) == mask_text(text)


PIECES = [
    "api_key", "token", "--api-key", "Authorization", "x", "SECRET1", " ", "=", ":", ",", "'", '"', "\\", "[", "]", "(",
    ")", "{", "}", "\n", "\r", "\x1b[1m", "SecretStr(", "b'", "None", "12", "; ", "Bearer ", "https://", "@", "/", "-",
    MASK, "=>", ">", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "hf_abcdefghij",
]  # fmt: skip


@given(pieces=st.lists(st.sampled_from(PIECES), max_size=25), data=st.data())
def test_any_pieces_of_secrets_are_masked_alike_in_a_stream_and_then_stable(
    pieces: list[str], data: st.DataObject
) -> None:
    text = "".join(pieces)
    masked = mask_text(text)

    assert stream(text, known=[], cuts=data.draw(cuts_of(text))) == masked
    assert mask_text(masked) == masked


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
@pytest.mark.long
def test_a_long_line_is_never_cut_within_a_secret(fillings: list[str], data: st.DataObject) -> None:
    hidden = [data.draw(st.sampled_from(ON_ONE_LINE)) for _ in fillings]
    # A quote that is still open would make the value of another name of the next one.
    text = "".join(f"{'z' * 90}{filling}\"' {line}" for filling, (line, _) in zip(fillings, hidden, strict=True))
    masker, shown, fed = StreamMasker(longest_line=200), "", 0
    for begin, end in itertools.pairwise([0, *sorted(data.draw(cuts_of(text))), len(text)]):
        shown += masker.feed(text[begin:end])
        fed += end - begin
        assert 0 <= masker.waiting <= fed and len(masker._held) <= 400
    shown += masker.flush()

    assert masker.waiting == 0
    assert not [piece for _, secret in hidden for piece in pieces_of(secret) if piece in shown]


def pieces_of(secret: str) -> list[str]:
    return [secret[begin : begin + 5] for begin in range(len(secret) - 4)]


@pytest.mark.parametrize("before", range(LONGEST_LINE // 2 - 24, LONGEST_LINE // 2 + 2, 5))
@pytest.mark.parametrize(
    "line", ["--api-key=topsecret9,", '"token":"top secret9",', "://ana:topsecret9@h/", "-hf_topsecret9,"]
)
@pytest.mark.slow
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


@pytest.mark.parametrize("text", ["my-secret-\x1b[1;36m2024\x1b[0m-key", "my-\x1b(B\x1b[msecret-2024-key"])
def test_a_known_secret_with_a_colour_inside_is_hidden(text: str) -> None:
    assert mask_text(f"rich: {text} and more", known=["my-secret-2024-key"]) == f"rich: {MASK} and more"


def test_what_tput_writes_parts_no_secret_from_its_name() -> None:
    assert "MySecretValue1" not in mask_text("api_key\x1b(B\x1b[m=MySecretValue1")


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("my-sec\x1b[31mret-2024-key", "my-secret-2024-key"),
        ("m\x1b[1;36my-secret-2024-ke\x1b[0my", "my-secret-2024-key"),
        ("\x1b(Bsk-abcdefghijklmnop", "none of it"),
    ],
)
def test_no_cut_in_a_line_lets_a_secret_with_a_colour_through(line: str, known: str) -> None:
    for before in range(150 - len(line), 151):
        text = "," * before + line + "," * 300
        masker = StreamMasker(known=[known], longest_line=200)
        first = masker.feed(text[:250])
        assert first and first + masker.feed(text[250:]) + masker.flush() == mask_text(text, known=[known]), before
