"""The documentation, opened from disk: no page fails, none asks another host, search finds."""

from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "site"
PAGES = (
    "index.html",
    "tutorials/own-text.html",
    "lectures/encoder.html",
    "reference/command-line.html",
    "reference/python.html",
    "results.html",
)

pytestmark = pytest.mark.skipif(
    not SITE.exists(), reason="there is no site, so it is not tested; `make docs` builds it"
)


def opened(visit, page, **options):
    return visit(page, at=SITE.as_uri(), wait="main h1", **options)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_opens_from_disk_and_asks_nobody_else(visit, page):
    shown = opened(visit, page)
    assert all(url.startswith(("file:", "data:", "about:")) for url in shown.asked)
    broken = "all => all.filter(one => one.complete && !one.naturalWidth).map(one => one.src)"
    assert shown.locator("main img:visible").evaluate_all(broken) == []


def test_search_finds_attention_offline(visit):
    page = opened(visit, "index.html")
    page.locator("[data-md-component=search-query]").press_sequentially("attention")
    found = page.locator(".md-search-result__item a:visible", has_text="attention").first
    found.wait_for()
    with page.expect_navigation():
        found.click()
    assert page.url.startswith(SITE.as_uri())


def test_equations_are_drawn_by_the_browser_itself(visit):
    page = opened(visit, "lectures/encoder.html")
    assert page.locator("main math[display=block] mfrac").count() >= 3
    assert page.locator("main .arithmatex").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_as_light_or_dark_as_the_reader_wants(visit, scheme):
    page = opened(visit, "index.html", color_scheme=scheme)
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    bright = sum(int(part) for part in colour.strip("rgba()").split(",")[:3]) > 3 * 128
    assert bright == (scheme == "light")
    assert page.locator("main img:visible").count() >= 1


def test_no_page_is_wider_than_a_telephone(visit):
    for name in PAGES:
        page = opened(visit, name)
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
