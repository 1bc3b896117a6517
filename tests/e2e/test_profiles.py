"""Profiles in a real browser that runs no script: paste, clone, export, import, compare."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e import steps
from tests.e2e.conftest import RunningPanel
from tests.e2e.looking import AXE, RUN_AXE, SERIOUS

pytestmark = [pytest.mark.lab, pytest.mark.e2e, pytest.mark.timeout(300)]

DOCKER = (
    "docker run -d --gpus all \\\n  -p 8000:30000 -v /data/hf:/root/.cache/huggingface --ipc=host "
    "lmsysorg/sglang:v0.5.9 \\\n  python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --host 0.0.0.0 "
    "--port 30000 2>&1 | tee x.log"
)


@pytest.fixture
def plain(browser: Browser, page: Page, panel: RunningPanel) -> Iterator[Page]:
    """A page of the same person without JavaScript."""
    context = browser.new_context(
        base_url=panel.url, java_script_enabled=False, storage_state=page.context.storage_state()
    )
    opened = context.new_page()
    opened.set_default_timeout(20_000)
    yield opened
    context.close()


def paste(page: Page, *, name: str, command: str) -> None:
    page.goto("/profiles/new/")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Command line").fill(command)
    page.get_by_role("button", name="Create the profile").click()


def test_a_profile_is_pasted_cloned_exported_and_brought_back(plain: Page, tmp_path: Path) -> None:
    paste(plain, name="docker", command=DOCKER.replace("/data/hf", "~/hf"))
    expect(steps.main(plain)).to_contain_text("~ would be filled in by a shell first")
    assert plain.get_by_label("Command line").input_value() == DOCKER.replace("/data/hf", "~/hf"), "nothing is lost"
    plain.get_by_label("Command line").fill(DOCKER)
    plain.get_by_role("button", name="Create the profile").click()
    expect(steps.main(plain)).to_contain_text("-d was left out")
    shown = plain.locator("#command").inner_text()

    paste(plain, name="docker-again", command=shown)
    plain.wait_for_url(re.compile(r"/profiles/\d+/$"))
    assert plain.locator("#command").inner_text() == shown, "what is copied is what it was"

    plain.get_by_role("link", name="Clone r1").click()
    plain.get_by_label("Name", exact=True).fill("docker-clone")
    plain.get_by_role("button", name="Create the profile").click()
    expect(steps.main(plain)).to_contain_text("Its revision 1 is what docker-again r1 is.")

    with plain.expect_download() as download:
        plain.get_by_role("link", name="Export r1").click()
    assert download.value.suggested_filename == "docker-clone-r1.yaml"
    download.value.save_as(tmp_path / "file.yaml")
    plain.goto("/profiles/import/")
    plain.get_by_label("File", exact=True).set_input_files(tmp_path / "file.yaml")
    plain.get_by_role("button", name="Show what it would make").click()
    expect(steps.main(plain)).to_contain_text("There is already a profile named docker-clone.")
    plain.get_by_label("Name here").fill("docker-back")
    plain.get_by_role("button", name="Show again what it would make").click()
    plain.get_by_role("button", name="Create the profile").click()
    expect(steps.main(plain)).to_contain_text("docker-back has 1 revision from the file.")
    assert plain.locator("#command").inner_text() == shown

    plain.goto(plain.url + "compare/")
    plain.get_by_label("Also those of").select_option(label="docker")
    plain.get_by_role("button", name="Compare").click()
    expect(plain.locator("h1")).to_have_text("docker-back r1 and docker r1")
    expect(steps.main(plain)).to_contain_text("No difference.")


def test_what_people_change_first_and_the_command_line_follow_each_other(page: Page) -> None:
    page.goto("/profiles/new/")
    page.get_by_label("Engine", exact=True).select_option("sglang")
    settings, command = page.locator("#knobs"), page.get_by_label("Command line")
    settings.get_by_label("Model").fill("/models/qwen-27b")
    settings.get_by_label("Cards to split over").fill("2")
    settings.get_by_label("Context").fill("128K")
    settings.get_by_label("KV cache").select_option("bf16")
    for flag in ("--model-path /models/qwen-27b", "--tp-size 2", "--context-length 131072", "--kv-cache-dtype bf16"):
        expect(command).to_have_value(re.compile(re.escape(flag)))
    expect(settings.get_by_label("Context")).to_have_value("131072")

    command.fill(command.input_value().replace("131072", "4096"))
    command.blur()
    expect(settings.get_by_label("Context")).to_have_value("4096")
    settings.get_by_label("Memory fraction").fill("9")
    settings.get_by_label("Memory fraction").blur()
    expect(settings).to_contain_text("less than or equal to 1")
    expect(settings.get_by_label("Memory fraction")).to_have_value("9")
    settings.get_by_label("Memory fraction").fill("0.9")
    page.get_by_label("Name", exact=True).fill("by-settings")
    page.evaluate(AXE.read_text())
    assert not [found["id"] for found in page.evaluate(RUN_AXE) if found["impact"] in SERIOUS]
    page.get_by_role("button", name="Create the profile").click()
    page.wait_for_url(re.compile(r"/profiles/\d+/$"))
    shown = " ".join(page.locator("#command").inner_text().replace("\\\n", " ").split())
    assert shown == (
        "python3 -m sglang.launch_server --model-path /models/qwen-27b --host 0.0.0.0 --tp-size 2 "
        "--context-length 4096 --kv-cache-dtype bf16 --mem-fraction-static 0.9"
    )
