"""A person lets a chat model answer, looks at a word of the answer, and lets it answer again without a head."""

import re
import sys
from urllib.parse import parse_qs, urlencode

import driver
import pytest
from driver import expect_link
from playwright.sync_api import expect
from transformers import AutoTokenizer

import attnviz
from attnviz import Edits
from attnviz.generation import Generated

sys.path.append(str(driver.ROOT / "tests" / "sources" / "huggingface"))
import zoo

QUESTION = "A cat sat."
TEMPLATE = (
    "{% for m in messages %}{{ '<s>' + m['role'] + '\n' + m['content'] | trim + '</s>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant\n' }}{% endif %}"
)


@pytest.fixture(scope="module")
def chat_model(tmp_path_factory) -> str:
    """The folder of a tiny decoder with a chat template."""
    folder = tmp_path_factory.mktemp("chat")
    zoo.save("llama", "LlamaForCausalLM", folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def answers(chat_model) -> tuple[Generated, Generated, int]:
    """An answer, another one without a head of the first layer, and that head."""
    source = attnviz.load(chat_model, chat=True)
    site = source.sites[0]
    before = attnviz.generate(QUESTION, source)
    for head in range(source.num_heads):
        after = attnviz.generate(QUESTION, source, edits=Edits(heads_off=frozenset({(site, head)})))
        if after.first_difference(before) is not None:
            return before, after, head
    raise AssertionError("no head of the first layer changes the answer")


def test_an_answer_its_rows_and_another_one_take_four_clicks(page, server, chat_model, answers):
    """After the question: Continue, a word of the answer, a head's eye, Write again."""
    before, after, head = answers
    driver.open_page(page, f"{server}/?{urlencode({'model': 'huggingface', 'hf': chat_model, 'chat': 'true'})}")
    page.get_by_label("Sentence").first.fill(QUESTION)
    page.keyboard.press("Control+Enter")
    expect_link(page, "text=")
    words = page.locator(".st-key-cell-answer button")

    page.get_by_role("button", name="Continue", exact=True).click()
    expect_link(page, f"continued={'-'.join(map(str, before.ids))}")
    assert words.all_inner_texts() == [token.text for token in before.tokens]

    words.nth(2).click()
    row = before.prompt + 1
    expect_link(page, f"cell={row}.")
    expect(page.get_by_text(f"({row + 1}) was written from row")).to_be_visible()
    expect(page.locator(".words").first).to_contain_text(f"({row})")

    page.get_by_role("button", name=f"Head {head}", exact=True).click()
    expect_link(page, f"heads_off=d0.{head}")

    page.get_by_role("button", name="Write again", exact=True).click()
    expect_link(page, f"continued={'-'.join(map(str, after.ids))}")
    place = after.first_difference(before) - before.prompt
    assert words.all_inner_texts() == [token.text for token in after.tokens]
    expect(page.locator(".says.small u")).to_have_text(before.tokens[place].text)
    expect(page.get_by_text(f"Before (differs from token {place + 1} on):")).to_be_visible()


def test_a_long_answer_may_be_stopped_and_stays(page, server, tmp_path):
    """Its words are there in parts, and the part that one turns to is read."""
    zoo.save("llama", "LlamaForCausalLM", tmp_path, max_position_embeddings=4096)
    driver.open_page(page, f"{server}/?{urlencode({'model': 'huggingface', 'hf': str(tmp_path), 'text': QUESTION})}")
    page.get_by_role("button", name="How", exact=True).click()
    page.get_by_label("New tokens, at most").fill("2000")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Continue", exact=True).click()
    expect(page.get_by_text(re.compile(r"\d\d\d of 2,000 tokens written · \d+"))).to_be_visible()
    page.get_by_role("button", name="Stop here", exact=True).click()

    expect_link(page, "continued=")
    ids = parse_qs(driver.link(page))["continued"][0].split("-")
    assert 64 < len(ids) < 2000
    assert page.locator(".st-key-cell-answer button").count() == 64

    page.get_by_role("button", name="Later tokens").click()
    expect(page.get_by_text(f"Tokens 65 to {min(len(ids), 128)} of {len(ids):,}")).to_be_visible()
