"""A file that is dropped on the page, in a real Chromium."""

import zipfile

import driver
import numpy as np
import pytest
import torch
from playwright.sync_api import expect

import attnviz
from attnviz import files

HOLD = """async ([name, bytes]) => {
    window.held = new DataTransfer();
    held.items.add(new File([new Uint8Array(bytes)], name));
}"""
DRAG = """kind => document.querySelector('.marks').dispatchEvent(
    new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer: window.held}))"""


def test_a_file_is_dropped_or_chosen_and_is_a_model(server, page, tmp_path):
    """The page says where to drop; a file that is too large is refused before it is sent; the keyboard opens one."""
    np.save(tmp_path / "weights.npy", np.full((2, 3, 3), 1 / 3, "float32"))
    (tmp_path / "large.npy").write_bytes(bytes(50 * 2**20 + 1))
    driver.open_page(page, f"{server}/?model=story&text=a%20dog%20ran")
    page.evaluate(HOLD, ["case.attn", [*files.saved(attnviz.analyze("The cat sat", "story"))]])

    page.evaluate(DRAG, "dragover")
    expect(page.locator(".stApp[data-file-over]")).to_be_visible()
    page.evaluate(DRAG, "drop")
    driver.expect_link(page, "model=file%3Acase.attn")
    expect(page.locator("[data-file-over]")).to_have_count(0)
    expect(page.get_by_label("Sentence", exact=True)).to_have_value("The cat sat")
    assert driver.picture(page, "head").bounding_box()["y"] < 240

    page.get_by_role("button", name="More", exact=True).click()
    with page.expect_file_chooser() as chooser:
        page.locator("button.open-file").press("Enter")
    chooser.value.set_files([tmp_path / "large.npy", tmp_path / "weights.npy"])
    expect(page.get_by_role("alert").filter(has_text="large.npy has 51 MB; files of up to 50 MB open")).to_be_visible()
    driver.expect_link(page, "model=file%3Aweights.npy")
    page.locator(".st-key-export button").first.click()
    page.locator("details summary", has_text="More").last.click()
    with page.expect_download() as got:
        page.get_by_role("button", name="Download everything").click()
    with zipfile.ZipFile(got.value.path()) as archive:
        assert {"README.txt", "case.attn", "every-head.html"} < {*archive.namelist()}
    driver.settled(page)
    assert driver.serious(page) == []


@pytest.mark.parametrize(("rows", "columns"), [(24, 24), (30, 50)])
def test_a_picture_of_many_patches_is_drawn(server, page, tmp_path, rows, columns):
    """Above 2,000 marks Streamlit would draw on a canvas, which takes no address for an image."""
    picture = np.random.default_rng(0).integers(0, 256, (60, 100, 3), "uint8")
    model, vectors = torch.nn.MultiheadAttention(4, 1, batch_first=True), torch.randn(1, rows * columns, 4)
    with torch.no_grad(), attnviz.capture(model) as seen:
        model(vectors, vectors, vectors)
    attnviz.save(seen.record(places=(rows, columns), image=picture), tmp_path / "patches.attn")
    driver.open_page(page, f"{server}/?model=story")
    page.get_by_role("button", name="More", exact=True).click()
    with page.expect_file_chooser() as chooser:
        page.locator("button.open-file").press("Enter")
    chooser.value.set_files(tmp_path / "patches.attn")

    expect(page.get_by_text("MultiheadAttention").first).to_be_visible()
    driver.settled(page)
    expect(page.locator("svg.marks image").first).to_be_visible()
