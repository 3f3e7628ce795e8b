"""The page of a whole record, opened from disk without a network, by mouse, by touch and by keys, and on paper."""

import re

import driver
import pytest
from pictures import HOSTILE, prediction_of, record_of
from playwright.sync_api import Page, expect

import attnviz
from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Subsequent
from attnviz.core.record import Record
from attnviz.export.explore import explore

READ = re.compile(r"\((\d+)\) → .* \((\d+)\): (\d\.\d{4}) · (.*)")


def opened(page: Page, folder, record: Record, link: str = "", **asked) -> Page:
    """Open the page of a record and wait until every head is painted."""
    file = folder / "case.html"
    file.write_text(explore(record, **asked), encoding="utf-8")
    page.goto(file.as_uri() + link)
    page.wait_for_selector("html[data-painted]")
    return page


def read(page) -> tuple[int, int, float, str]:
    """Return the query, key, weight and state of the cell in the readout."""
    expect(page.locator("#readout")).to_have_text(READ)
    query, key, weight, state = READ.search(page.locator("#readout").text_content()).groups()
    return int(query), int(key), float(weight), state


def exact(record: Record, site: Site, head: int, found: tuple[int, int, float, str]) -> bool:
    query, key, weight, _ = found
    return weight == pytest.approx(record.step(site).weights(head)[query, key].item(), abs=0.00006)


def point(page: Page, x: float, y: float) -> None:
    """Put the pointer at a place of the picture, given as shares of its width and height."""
    box = page.locator("#picture").bounding_box()
    page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])


def test_mouse_keys_and_link_show_every_head_exactly(window, tmp_path):
    """In cross-attention of a translator with a change: weights under the pointer, lines, words before and after."""
    text, site = "the black cat sleeps on the red chair .", Site("cross", 1)
    edits = Edits().with_heads_off(site, {3})
    record, before = attnviz.analyze(text, edits=edits), attnviz.analyze(text)
    page = opened(window(), tmp_path, record, "#layer=c1&head=2&nothing=1", before=before)

    for place in ((0.4, 0.5), (0.6, 0.9)):
        point(page, *place)
        assert exact(record, site, 2, read(page))
    page.mouse.down()
    page.mouse.up()
    kept = read(page)
    expect(page).to_have_url(re.compile(rf"cell={kept[0]}\.{kept[1]}"))
    page.locator("#picture").press("ArrowLeft")
    moved = read(page)
    assert (moved[0], moved[1]) == (kept[0], kept[1] - 1)
    assert exact(record, site, 2, moved)
    expect(page.locator("#words")).to_contain_text(f"({moved[1]}).")
    expect(page.locator("#predicted")).to_contain_text(f"before: {before.prediction.written[0]}")
    expect(page.locator("#predicted th")).to_have_text(["word", "probability", "before"])

    page.get_by_text("Lines", exact=True).click()
    page.locator("#picture").press("Escape")
    box = page.locator("#picture").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 48)
    expect(page.locator("#readout")).to_have_text(
        re.compile(r"^most: <sos> \(0\) → cat \(2\): [01]\.\d{4} · may attend$")
    )
    page.mouse.down()
    page.mouse.up()
    expect(page).to_have_url(re.compile("pins=q0&as=lines"))
    point(page, 0.5, 0.212)
    expect(page.locator("#readout")).to_have_text(READ)
    page.locator("#mosaic").press("ArrowRight")
    expect(page.locator("#name")).to_have_text("Head 3 of cross layer 1 (off)")
    page.locator("#mosaic").press("ArrowUp")
    expect(page.locator("#name")).to_have_text("Head 3 of cross layer 0")
    page.locator("#mosaic").click(position={"x": 80, "y": 40})
    expect(page.locator("#name")).to_have_text("Head 0 of encoder layer 0")
    page.locator("#numbers summary").click()
    expect(page.locator("#numbers tbody tr")).to_have_count(len(record.sentences[0].tokens))
    assert driver.serious(page) == []


def test_in_a_frame_without_rights_a_finger_reads_weights(chromium, tmp_path):
    """As a notebook shows it, in the dark, on a phone: a tap keeps a cell, and nothing is wider than the screen."""
    record = record_of(["the", "cat", "sat", "on", "it"], heads=3, edits=Edits(Subsequent()))
    (tmp_path / "cell.html").write_text(f"<!DOCTYPE html><title>x</title>{explore(record)._repr_html_()}", "utf-8")
    options = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "color_scheme": "dark"}
    context = chromium.new_context(**options, offline=True)
    problems: list[str] = []
    page = context.new_page()
    driver.watch(page, problems)
    page.goto((tmp_path / "cell.html").as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("html[data-painted]").wait_for(state="attached")

    assert (
        frame.locator("body").evaluate("body => getComputedStyle(body.parentElement).backgroundColor")
        == "rgb(14, 17, 23)"
    )
    box = frame.locator("#picture").bounding_box()
    page.touchscreen.tap(box["x"] + 0.4 * box["width"], box["y"] + 0.9 * box["height"])
    found = read(frame)
    assert exact(record, Site("encoder", 0), 0, found)
    frame.get_by_label("down").tap()
    assert read(frame)[:2] == (min(found[0] + 1, 4), found[1])
    frame.get_by_text("Text", exact=True).tap()
    frame.locator("#text button").nth(4).tap()
    expect(frame.locator("#text button").nth(0)).to_have_attribute(
        "aria-label", re.compile(r"^the \(0\): 0\.\d{4} · may")
    )
    expect(frame.locator("#text [aria-pressed=true]")).to_have_text(re.compile("^it"))
    frame.get_by_text("To", exact=True).tap()
    expect(frame.locator("#text button").nth(0)).to_have_attribute(
        "aria-label", "the (0): 0.0000 · blocked by causal mask"
    )
    assert frame.locator("html").evaluate("page => page.scrollWidth <= page.clientWidth")
    context.close()
    assert problems == []


def test_hostile_tokens_and_rows_that_are_no_numbers_are_shown(window, tmp_path):
    """Nothing runs, nothing is markup; NaN, blocked cells and rows without a key are said in words."""
    edits = Edits(~Subsequent(), empty_rows="nan")
    record = record_of(list(HOSTILE), edits=edits)
    record = Record(**vars(record) | {"prediction": prediction_of(*[dict.fromkeys(HOSTILE, 1 / 16)] * 16)})
    page = opened(window(scheme="dark"), tmp_path, record, f"#as=text&pins=q0&head=99&cell=99.1&layer=x&{HOSTILE[2]}")

    assert page.evaluate("typeof hacked") == "undefined"
    assert page.locator("script").count() == 2
    expect(page.locator("#text button")).to_have_count(len(HOSTILE))
    expect(page.locator("#text button").nth(2)).to_contain_text("</script><b>")
    expect(page.locator("#name")).to_have_text("Head 1 of encoder layer 0")
    for told in ("NaN: not a number", "fully masked row: NaN", "blocked by not causal"):
        expect(page.locator("#legend")).to_contain_text(told)
    page.evaluate("location.hash = 'as=map&cell=15.3'")
    expect(page.locator("#words")).to_contain_text("has no key left to look at; its weights are NaN.")
    page.evaluate("location.hash = 'as=lines&cell=3.1'")
    expect(page.locator("#words")).to_contain_text("may not look at")
    assert driver.serious(page) == []


def test_the_app_gives_a_page_that_prints_light_and_whole(window, app, tmp_path):
    """With what was predicted before; in the dark it prints on white, without what only a screen can use."""
    overview = window()
    driver.open_page(overview, f"{app}/overview?model=story&text=the dog sleeps .&heads_off=d0.1&layer=d1&head=1")
    overview.get_by_role("button", name="Export").click()
    with overview.expect_download() as waiting:
        overview.get_by_role("button", name="Page to explore").click()
    waiting.value.save_as(tmp_path / "case.html")
    page = window(scheme="dark")
    page.goto((tmp_path / "case.html").as_uri())
    page.wait_for_selector("html[data-painted]")

    expect(page.locator("#name")).to_have_text("Head 1 of decoder layer 1")
    expect(page.locator("#changed")).to_have_text("head 1 of decoder layer 0 off")
    expect(page.locator("#predicted th")).to_have_text(["word", "probability", "before"])
    pixel = "canvas => String(canvas.getContext('2d').getImageData(canvas.width / 2, canvas.height - 8, 1, 1).data)"
    dark = page.locator("#picture").evaluate(pixel)
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_function(f"dark => ({pixel})(document.getElementById('picture')) !== dark", arg=dark)
    expect(page.locator(".bar")).to_be_hidden()
    expect(page.locator("#mosaic")).to_be_visible()
    assert page.pdf()[:5] == b"%PDF-"
