"""A text as a user's turn: the ids are those of the model's own chat template, and each token has its role."""

import io
from urllib.parse import urlencode

import numpy as np
import pytest
import zoo
from transformers import AutoTokenizer

import attnviz
from attnviz import files
from attnviz.cli import main
from attnviz.core.errors import InputError
from attnviz.core.tokens import Sentence
from attnviz.sources.huggingface import reading

PLAIN = (
    "{% for m in messages %}{{ '<s>' + m['role'] + '\n' + m['content'] | trim + '</s>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant\n' }}{% endif %}"
)
NO_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}{{ '[' + m['content'] + ']' }}{% endfor %}"
)
TEXT = "A cat sat."


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, str]:
    """A tiny decoder with each template, and one without."""
    made = {}
    for name, template in {"plain": PLAIN, "no system": NO_SYSTEM, "none": None}.items():
        folder = tmp_path_factory.mktemp("chat")
        zoo.save("llama", "LlamaForCausalLM", folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        tokenizer.chat_template = template
        tokenizer.save_pretrained(folder)
        made[name] = str(folder)
    return made


def by_role(sentence: Sentence, *, special: bool) -> dict[str, str]:
    """The pieces of each turn, joined."""
    pieces: dict[str, str] = {}
    for token in sentence.tokens:
        if token.special is special:
            pieces[token.role] = pieces.get(token.role, "") + token.text
    return pieces


@pytest.mark.parametrize("system", ["", "Be short."])
def test_the_ids_are_those_of_the_template(folders, system):
    """With its generation prompt, and without a second <s> before it."""
    turns = [{"role": "system", "content": system}] if system else []
    own = AutoTokenizer.from_pretrained(folders["plain"]).apply_chat_template(
        [*turns, {"role": "user", "content": TEXT}], add_generation_prompt=True, return_dict=True
    )
    (sentence,) = attnviz.load(folders["plain"], chat=True, system=system).tokenize([TEXT])

    assert [token.id for token in sentence.tokens] == own["input_ids"]


def test_each_token_has_the_role_of_its_turn_and_the_template_is_special(folders):
    """So the template can be hidden as special tokens are."""
    (sentence,) = attnviz.load(folders["plain"], chat=True, system="Be short.").tokenize([f" {TEXT} "])

    assert by_role(sentence, special=False) == {"system": "Be short.", "user": TEXT}
    assert {role: text.strip() for role, text in by_role(sentence, special=True).items()} == {
        "system": "<s>system\n</s>",
        "user": "<s>user\n</s>",
        "assistant": "<s>assistant",
    }


def test_an_answer_is_the_assistants(folders, tmp_path):
    """In the record, and in a file of it."""
    generated = attnviz.generate(TEXT, attnviz.load(folders["plain"], chat=True), 4)
    assert {token.role for token in generated.tokens} == {"assistant"}

    path = tmp_path / "chat.attn"
    files.save(generated.record, path)
    assert files.read(path).sentences == generated.record.sentences


@pytest.mark.parametrize(
    ("name", "system", "message"),
    [
        ("none", "", "has no chat template; give it the text without one."),
        ("no system", "Be short.", "takes no such turns: System role not supported"),
    ],
)
def test_what_the_template_does_not_take_is_one_sentence(folders, name, system, message):
    with pytest.raises(InputError, match=message):
        attnviz.load(folders[name], chat=True, system=system).tokenize([TEXT])
    assert attnviz.load(folders[name], chat=name != "none").tokenize([TEXT])


def test_of_several_templates_the_default_is_taken(folders):
    """As transformers does, and whatever a text holds."""
    tokenizer = AutoTokenizer.from_pretrained(folders["plain"])
    tokenizer.chat_template = {"default": PLAIN, "tool_use": NO_SYSTEM}
    turns = [{"role": "user", "content": "«éß» 猫"}, {"role": "assistant", "content": "\n"}]

    own = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert reading.render_chat(tokenizer, "plain", turns, add_generation_prompt=True) == own


def test_a_link_to_a_chat_is_exported_with_its_answer(folders, tmp_path):
    """The shell draws the record that `generate` gave; a system's turn may look like a number or a flag."""
    for system in ("Be short.", "5", "--chat"):
        generated = attnviz.generate(TEXT, attnviz.load(folders["plain"], chat=True, system=system), 4)
        chat = {"chat": system, "answer": "-".join(map(str, generated.ids))}
        model = {"model": folders["plain"], "text": TEXT, "layer": "d1", "head": 2}
        path = tmp_path / "link.npz"

        assert main(["export", f"?{urlencode(model | chat)}", "-o", str(path)]) == 0

        figure = attnviz.figures.head(generated.record, attnviz.Site("decoder", 1), 2)
        with np.load(path) as exported, np.load(io.BytesIO(attnviz.export.render(figure, "npz"))) as expected:
            np.testing.assert_equal(dict(exported), dict(expected))
