"""A profile as a file: what is written reads back exactly, and what cannot be right is named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deployments.commandline import Command
from deployments.models import Profile, Revision
from deployments.profilefile import LARGEST, FiledRevision, ProfileFile, read_file, write_file

DOCKER = {"tool": "docker", "image": "img:1", "options": ["--gpus", '"device=0,1"', "--network", "host"]}


def filed(*revisions: dict[str, Any], **values: Any) -> tuple[Profile, list[Revision]]:
    profile = Profile(**({"name": "chat", "engine": "sglang", "description": "The team's chat"} | values))
    usual = {"argv": ["sglang", "serve", "/m"], "env": {}, "port": 30000, "profile": profile}
    return profile, [Revision(number=at, **(usual | given)) for at, given in enumerate(revisions, start=1)]


def test_a_file_reads_as_people_write() -> None:
    profile, revisions = filed(
        {"env": {"A": "1"}, "workdir": "/srv", "notes": "two\nlines"},
        {"container": DOCKER, "ready_pattern": "up", "engine_versions": "0.5.10 or newer"},
    )
    text = write_file(profile, reversed(revisions))
    assert (
        text
        == """\
# A profile of the panel Relaunch. Bring it back under Profiles, Import.
relaunch: 1
profile: chat
engine: sglang
description: The team's chat
revisions:
- revision: 1
  notes: |-
    two
    lines
  command: |-
    cd /srv &&
    A=1 \\
    sglang serve /m
  port: 30000
- revision: 2
  command: |-
    docker run \\
      --gpus '"device=0,1"' \\
      --network host \\
      img:1 sglang serve /m
  port: 30000
  ready: up
  versions: 0.5.10 or newer
"""
    )
    serve = ["sglang", "serve", "/m"]
    assert read_file(text) == ProfileFile(
        "chat", "sglang", "The team's chat",
        (
            FiledRevision(1, Command(serve, {"A": "1"}, "/srv"), 30000, "", "two\nlines"),
            FiledRevision(2, Command(serve, container=DOCKER), 30000, "up", engine_versions="0.5.10 or newer"),
        ),
    )  # fmt: skip
    assert read_file(text.replace("\n", "\r\n")) == read_file(text), "as a browser sends it"


texts = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=20)
few = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@few
@given(texts, texts, st.lists(texts.filter(lambda text: "\n" not in text and "\r" not in text), max_size=3))
def test_whatever_it_holds_reads_back(notes: str, pattern: str, words: list[str]) -> None:
    argv = ["sglang", "serve", *(f"x{word}" for word in words)]
    profile, revisions = filed({"argv": argv, "notes": notes, "ready_pattern": pattern}, description=notes)
    found = read_file(write_file(profile, revisions))
    assert (found.description, found.revisions) == (notes, (FiledRevision(1, Command(argv), 30000, pattern, notes),))


GOOD = "relaunch: 1\nprofile: p\nengine: vllm\nrevisions:\n- command: vllm serve /m\n  port: 8000\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a profile"),
        ("- a", "is not a profile"),
        ("a: [", "Line 1 is not YAML"),
        ("a: 'x", "is not YAML"),
        ("a: \x07", "does not allow"),
        (GOOD.replace("relaunch: 1\n", ""), "“relaunch” is missing"),
        (GOOD.replace("relaunch: 1", "relaunch: 9"), "of another version of Relaunch"),
        (GOOD.replace("vllm\nrev", "vlm\nrev"), "no engine 'vlm'. Write one of: sglang, vllm"),
        (GOOD.replace("profile: p", "profile: " + "p" * 65), "at most 64 letters"),
        (GOOD.replace("profile: p", 'profile: "a\\u202eb"'), "that can be seen"),
        (GOOD.replace("profile: p", "profile: [p]"), "“profile” must be text"),
        (GOOD.replace("engine:", "owner: me\nengine:"), "a field 'owner', which is none. There are: description,"),
        (GOOD.replace("  port: 8000", "  prot: 8000"), "Revision 1 of the file has a field 'prot'"),
        (GOOD.replace("  port: 8000", ""), "Revision 1 of the file: “port” is missing"),
        (GOOD.replace("8000", "eight"), "“port” must be a number, not 'eight'"),
        (GOOD.replace("8000", "٨٠"), "must be a number"),
        (GOOD.replace("vllm serve /m", "vllm serve ~/m"), "Revision 1 of the file: ~ would be filled in"),
        (GOOD.replace("vllm serve /m", "vllm serve /m --api-key abc123"), "would show the secret"),
        (GOOD.replace("vllm serve /m", "{a: b}"), "“command” must be text"),
        (GOOD.replace("vllm serve /m", '"a\\0b"'), "NUL character"),
        (GOOD + "  notes: " + "x" * 5001, "“notes” is longer than 5,000 letters"),
        (GOOD + "  port: 8001\n", "'port' stands twice"),
        (GOOD[: GOOD.index("- ")] + "  a: b", "“revisions” must be a list"),
        (GOOD[: GOOD.index("revisions")] + "revisions: []", "one revision at least"),
        (GOOD[: GOOD.index("- ")] + "- text", "Revision 1 of the file is no mapping"),
        (GOOD[: GOOD.index("- ")] + "- a\n" * 201, "at most 200 revisions; this one has 201"),
        ("a: &a [x]\nb: [*a, *a]", "Line 1 uses & or *"),
        ("a: *b", "Line 1 uses & or *"),
        ("[" + "a," * 5000 + "]", "more in it than 200 revisions have"),
        ("[" * 30, "is nested deeper"),
        ("a" * (LARGEST + 1), "too large: 200,001 characters"),
    ],
)
def test_what_cannot_be_right_is_named(text: str, says: str) -> None:
    with pytest.raises(ValueError) as refused:
        read_file(text)
    assert says in str(refused.value) and str(refused.value).endswith(".")
    assert "abc123" not in str(refused.value)


def test_a_file_can_make_no_object() -> None:
    found = read_file(GOOD.replace("profile: p", "profile: !!python/object/apply:os.getcwd []\n").replace("[]", "p"))
    assert found.name == "p"


@given(st.text(max_size=80))
@few
def test_any_text_is_a_profile_or_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        read_file(text)
