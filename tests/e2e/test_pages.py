"""Every page in a real browser, in both themes, on a desk and on a phone: axe finds nothing serious, nothing scrolls
sideways, and the browser complains about nothing."""

import json

import pytest
from playwright.sync_api import Browser

from tests.e2e.looking import TWO_WAYS, Seeded

pytestmark = [pytest.mark.lab, pytest.mark.e2e, pytest.mark.timeout(300)]

SAMPLE = ("overview", "job", "deployment")


@pytest.mark.parametrize("name", SAMPLE)
def test_the_pages_that_people_use_all_day(seeded: Seeded, name: str) -> None:
    assert not seeded.look(seeded.paths[name], ways=TWO_WAYS)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_page(seeded: Seeded) -> None:
    wrong = {name: said for name, path in seeded.paths.items() if (said := seeded.look(path))}
    assert not wrong, json.dumps(wrong, indent=1)


@pytest.mark.slow
def test_the_pages_of_somebody_who_is_not_signed_in(seeded: Seeded, browser: Browser) -> None:
    context = browser.new_context(base_url=seeded.url)
    outside = Seeded(seeded.url, seeded.directory, context, context.new_page(), {})
    outside.listen()
    assert not outside.look("/login/")
    assert not [said for said in outside.look("/sign-in/used-up/") if "404" not in said and "410" not in said]
    context.close()


@pytest.mark.slow
def test_no_page_allows_what_is_unsafe(seeded: Seeded) -> None:
    for path in (*seeded.paths.values(), "/nowhere/"):
        policy = seeded.page.request.get(path).headers["content-security-policy"]
        assert "default-src 'self'" in policy and "unsafe" not in policy, path
