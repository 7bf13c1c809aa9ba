import re
from html.parser import HTMLParser

import pytest

from regard.visual.charts import curves
from regard.visual.report import Card, Looked, Sample, badge, card, cards_page, report_page
from regard.visual.tables import Table

VOID = {"meta", "link"}


class Reader(HTMLParser):
    """Collects tags, attributes and text, and insists that every element is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.texts.append((self.open[-1], data))


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


def cells(reader, tag):
    return [text for where, text in reader.texts if where == tag]


def full(word="word"):
    return report_page(
        word,
        facts=[(word, word)],
        curves=[curves({word: [(0, 1), (1, 2)]}, title=word, x_label=word, y_label=word)],
        tables=[Table(word, (word, "n"), [(word, "1")])],
        samples=[Sample(word, word, word), Sample(word, "other", word)],
        settings=word,
    )


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def a_card(name="rows", verdict=False):
    told = {"claim": "c", "why": "w", "finding": "f", "command": "regard <x>", "expect": "e"}
    return Card(name=name, stem=name, verdict=verdict, **told)


@pytest.mark.parametrize("verdict", [True, False])
def test_a_verdict_brings_its_own_ground_and_is_read_on_light_and_dark(verdict):
    ground, ink = re.search(r"background:(#\w{6});color:(#\w+)", badge(verdict, "x")).groups()
    assert ink == "#fff"
    assert 1.05 / (luminance(ground) + 0.05) >= 4.5


def test_a_card_and_the_overview_have_the_same_badge():
    one = a_card()
    style = re.search('style="[^"]*"', badge(False, ""))[0]
    assert style in card(one)
    assert cards_page("Lab", [one]).count(style) == 2


def test_a_card_says_why_it_matters_and_what_to_try():
    shown = card(a_card())
    assert "<b>Why it matters</b> w" in shown
    assert "<code>regard &lt;x&gt;</code><span>e</span>" in shown
    assert shown.index("w</p>") < shown.index("The claim does not hold.") < shown.index("Try it")


def test_cards_stand_in_the_order_of_their_themes_and_an_empty_theme_is_not_named():
    cards = [a_card("late"), a_card("early")]
    themes = {"First": ["early"], "None": ["absent"], "Last": ["late"]}
    reader = read(cards_page("Lab", cards, themes=themes))
    assert cells(reader, "h2") == ["First", "Last", "First", "Last"]  # contents, then cards
    assert cells(reader, "h3") == ["early", "late"]


def test_the_page_counts_the_claims_that_hold():
    page = cards_page("Lab", [a_card("a", True), a_card("b", False)])
    assert "1 of 2 claims hold." in page


def test_a_report_shows_where_the_run_looked_and_what_the_model_is():
    look = Looked("a <b> text", "<svg><path/></svg>")
    page = report_page("x", looks=[look], drawing="<svg><circle/></svg>")
    assert "a &lt;b&gt; text</figcaption>" in page
    assert page.index("<path/>") < page.index("<circle/>")
    assert cells(read(page), "h2") == ["Where it looks", "The model"]


def test_every_page_says_whose_it_is_and_of_which_kind():
    for made, kind in ((report_page("x"), "Report of a run"), (cards_page("x", []), "Lab")):
        assert f'<header class="brand"><b>Regard</b><small>{kind}</small></header>' in made


def test_all_that_is_given_is_shown():
    reader = read(full("regard"))
    places = {where for where, text in reader.texts if text == "regard"}
    assert places == {"title", "h1", "h2", "dt", "dd", "th", "td", "p", "pre", "text"}
    assert "svg" in {tag for tag, _ in reader.tags}


def test_what_is_not_given_leaves_no_trace():
    tags = {tag for tag, _ in read(report_page("bare")).tags}
    assert not tags & {"section", "dl", "table", "ol", "svg", "details"}


def test_it_refers_to_nothing_outside_itself():
    page = full()
    without_names = page.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|//|@import|url\(", without_names)
    for tag, attributes in read(page).tags:
        assert tag not in {"script", "img", "iframe", "object", "embed", "base"}
        assert attributes.get("href", "data:,").startswith("data:")
        assert "src" not in attributes


def test_the_browser_is_told_to_load_and_run_nothing():
    policies = [a["content"] for _, a in read(full()).tags if "http-equiv" in a]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]


def test_markup_in_words_is_shown_and_never_obeyed():
    evil = "</title></style><script>alert('x')</script>"
    page = full(evil)
    assert "<script" not in page
    assert page.count("</style>") == 1
    assert cells(read(page), "h1") == [evil]


def test_columns_of_numbers_are_set_to_the_right_with_their_heads():
    table = Table(
        "t",
        ("set", "n", "share", "size"),
        [("a1", "1,000", "99.4 %", "310 MiB"), ("b", "–", "7 %", "1e-3")],
    )
    reader = read(report_page("x", tables=[table]))
    kinds = [a.get("class") for tag, a in reader.tags if tag in ("th", "td")]
    assert kinds == [None, "number", "number", "number"] * 3


def test_one_word_in_a_column_sets_it_to_the_left():
    table = Table("t", ("value",), [("12",), ("3 of 4",)])
    kinds = [
        a.get("class") for tag, a in read(report_page("x", tables=[table])).tags if tag == "td"
    ]
    assert kinds == [None, None]


def test_a_table_without_rows_shows_its_head():
    reader = read(report_page("x", tables=[Table("t", ("a", "b"), [])]))
    assert cells(reader, "th") == ["a", "b"]


def test_rows_of_the_wrong_width_are_refused():
    with pytest.raises(ValueError, match="zip"):
        report_page("x", tables=[Table("t", ("a", "b"), [("1", "2", "3")])])


def test_a_table_scrolls_in_a_box_that_the_keyboard_can_reach():
    boxes = [a for tag, a in read(full("regard")).tags if a.get("class") == "scroll"]
    assert boxes == [{"class": "scroll", "role": "region", "aria-label": "regard", "tabindex": "0"}]
    assert ".scroll { overflow-x: auto; }" in full()


def test_a_sample_tells_right_from_wrong_and_unknown():
    samples = [
        Sample("a", "le  chat", "le chat"),
        Sample("b", "le chien", "le chat"),
        Sample("c", "un chat"),
        Sample("d", "", "rien"),
    ]
    reader = read(report_page("x", samples=samples))
    said = [text for where, text in reader.texts if where in ("p", "span")]
    assert said == [
        *("a", "le  chat", "✓ as the reference"),
        *("b", "le chien", "expected ", "le chat"),
        *("c", "un chat"),
        *("d", "(nothing)", "expected ", "rien"),
    ]


def test_settings_keep_their_lines():
    text = "model:\n  d_model: 64\n"
    assert cells(read(report_page("x", settings=text)), "pre") == [text.strip()]


def test_it_suits_phones_and_dark_rooms():
    page = full()
    assert 'name="viewport" content="width=device-width' in page
    assert "prefers-color-scheme: dark" in page
