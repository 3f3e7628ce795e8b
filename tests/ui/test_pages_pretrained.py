"""Models of Hugging Face in the app, on each page as Streamlit runs it: tiny ones from folders, one from a hub here."""

import json
import re
import shutil
import sys
import threading
import time
from html import escape
from pathlib import Path

import hostile
import pytest
import torch
import transformers
from test_pages import button, heads_page, html, masks_page, opened, press_eye
from test_pages_compare import compare_page
from test_pages_models import model_page, specs
from test_pages_models import plainly_said as said
from test_pages_steps import steps_page

sys.path.insert(0, str(Path(__file__).parents[1] / "sources" / "huggingface"))

import fake_hub
import zoo
from huggingface_hub import constants

from attnviz import analysis, api
from attnviz.analysis.heads import Role
from attnviz.analysis.sentences import turned
from attnviz.core.amounts import percent
from attnviz.core.edits import Edits, Site
from attnviz.sources.huggingface import source as sources
from attnviz.sources.huggingface import trial
from attnviz.ui.shared import arrivals, everything, findings, state
from attnviz.ui.shared import pretrained as pretrained_models
from attnviz.ui.shared.look import COLORS, SENTENCE, SHOW

SIZES = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 14}
SIZES |= {"vocab_size": len(fake_hub.WORDS), "max_position_embeddings": 16}
IDS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2}
BART = {
    "vocab_size": len(fake_hub.WORDS),
    "d_model": 12,
    "max_position_embeddings": 70,
    "forced_eos_token_id": None,
} | {
    f"{part}_{what}": number
    for part in ("encoder", "decoder")
    for what, number in {"layers": 2, "attention_heads": 3, "ffn_dim": 14}.items()
}
KINDS = {
    "BertModel": SIZES,
    "BertForMaskedLM": SIZES,
    "BertForSequenceClassification": SIZES | {"id2label": {0: "glad", 1: "sad", 2: "<b>odd</b>"}},
    "BertForTokenClassification": SIZES | {"id2label": {0: "noun", 1: "verb"}},
    "LlamaForCausalLM": SIZES | {"num_key_value_heads": 1},
    "BartForConditionalGeneration": BART,
    "DebertaV2Model": SIZES,
}
CAT, BLANK = "the cat sat on the mat", "the [MASK] sat on the [MASK]"
NAME = "tiny/story"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a tiny model of some kind, with weights that are far from all alike."""

    def folder(kind: str) -> str:
        place = root / kind
        if not place.is_dir():
            torch.manual_seed(0)
            cls = getattr(transformers, kind)
            model = cls(cls.config_class(**KINDS[kind] | IDS))
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    if "norm" not in name.lower():
                        parameter.mul_(20)
            fake_hub.write(place, model)
        return str(place)

    root = tmp_path_factory.mktemp("models")
    yield folder
    sources._models.clear()


@pytest.fixture
def closed(folder, tmp_path, monkeypatch):
    """The folder of a model whose attention is in code of its own, and is not seen there."""
    monkeypatch.setattr(trial, "_captured", lambda loaded: 1 / 0)
    return str(shutil.copytree(folder("DebertaV2Model"), tmp_path / "DebertaV2Model"))


@pytest.fixture(autouse=True)
def nothing_is_on_its_way(monkeypatch):
    """No test finds what another has left."""
    monkeypatch.delenv("ATTNVIZ_MODELS", raising=False)
    yield
    arrivals._arrivals.clear()


@pytest.fixture
def hub(tmp_path, tmp_path_factory, monkeypatch):
    """A hub with one model, and an empty cache."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    for name in ("HF_HUB_OFFLINE", "HF_TOKEN", "ATTNVIZ_MAX_DOWNLOAD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with fake_hub.running() as (fake, address):
        monkeypatch.setenv("HF_ENDPOINT", address)
        fake.add(NAME, fake_hub.write(tmp_path_factory.mktemp("at") / "hub"))
        yield fake


def pretrained(name: str, page=heads_page, **link):
    """A page with a model of Hugging Face, run again until that is here, or something is asked or said."""
    return settled(opened(page, model="huggingface", hf=name, **link))


def settled(app):
    while any(not arrival.done for arrival in arrivals._arrivals.values()):
        time.sleep(0.05)
    app.run()
    assert not app.exception
    return app


def both(kind: str, folder: str, text: str):
    """The records without and with head 1 of the first layer off."""
    off = Edits(heads_off={(Site(kind, 0), 1)})
    return api.analyze(text.splitlines(), folder), api.analyze(text.splitlines(), folder, off)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_opens_on_every_page(folder, kind):
    """No complaint; the page says where the weights come from, that nothing was measured, and how the model is made."""
    app = pretrained(folder(kind), text=CAT)

    assert 'class="note' not in html(app)
    assert "from\N{NO-BREAK SPACE}a\N{NO-BREAK SPACE}folder · " in html(app)
    assert "float32,\N{NO-BREAK SPACE}cpu" in html(app)
    assert "What its heads do was not measured here." in html(app)
    assert len(app.get("vega_lite_chart")) == 3 - (kind in ("BertModel", "BertForMaskedLM", "DebertaV2Model"))

    assert 'class="note' not in html(pretrained(folder(kind), masks_page, text=CAT))

    card = html(pretrained(folder(kind), model_page, text=CAT))

    assert 'class="note' not in card
    assert f">{kind}<" in card
    parameters = sum(one.numel() for one in api.load(folder(kind)).loaded.model.parameters())
    assert f">{parameters:,}<" in card
    layers = "encoder decoder cross" if kind[:4] == "Bart" else "decoder" if kind[:5] == "Llama" else "encoder"
    assert all(f'<td>{part} layers</td><td class="number">2</td>' in card for part in layers.split())
    assert '<td>heads per layer</td><td class="number">3</td>' in card


def test_the_mask_of_a_model_that_predicts_nothing_foretells_nothing(folder):
    """Beside the rows stands a next word only where a model says one."""
    masks = {kind: "".join(specs(pretrained(folder(kind), masks_page, text=CAT))) for kind in KINDS}

    foretell = {kind for kind, drawn in masks.items() if "where it looks to predict" in drawn}
    assert foretell == {"LlamaForCausalLM", "BartForConditionalGeneration"}


# Two models beside each other


@pytest.fixture
def checkpoints(folder, tmp_path):
    """The folders of two checkpoints of one training."""
    made = [tmp_path / "run-7" / f"checkpoint-{step}" for step in (500, 1000)]
    for place in made:
        shutil.copytree(folder("BertModel"), place)
    return [*map(str, made)]


def test_a_link_to_compare_reads_its_b(checkpoints, tmp_path):
    """Nobody has chosen it before in this process; both are called by their own names, and no path is drawn."""
    first, second = checkpoints
    app = settled(pretrained(first, compare_page, text=CAT, b=f"model-{second}"))

    assert not app.exception
    assert 'class="note' not in html(app)
    drawn = html(app) + "".join(specs(app))
    assert "checkpoint-500 (run-7)" in drawn
    assert "checkpoint-1000 (run-7)" in drawn
    assert tmp_path.name not in drawn
    assert tmp_path.name not in str(app.selectbox(key="b model").options)


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("b", "says"), [("no/such-model", "no/such-model"), (NAME, "is not here yet. Choose it once as the model above.")]
)
def test_a_b_that_cannot_be_read_is_named(folder, b, says):
    """Nothing is downloaded for B alone, and no other model stands in its place."""
    app = settled(pretrained(folder("BertModel"), compare_page, text=CAT, b=f"model-{b}"))

    (error,) = re.findall(r'class="note error"[^>]*>([^<]*)<', html(app))
    assert says in error
    assert app.query_params["b"] == f"model-{b}"


def test_a_file_of_everything_holds_no_path_of_this_machine(folder, monkeypatch):
    """It is given to others."""
    app = pretrained(folder("BertModel"), text=CAT)
    monkeypatch.setattr(state, "now", lambda: app.session_state["state"].state)

    shown = everything._page_state()

    assert shown["link"]["hf"] == ["./BertModel"]


# What a model says, before and after


def test_the_next_token_before_and_after(folder):
    """With its probabilities, after a change where it moved most; another row asks for the token after it."""
    model = folder("LlamaForCausalLM")
    before, after = both("decoder", model, CAT)
    most = analysis.most_changed(before, after)
    (last, _), (old, new) = ([one.prediction.most_probable(at, 1)[0] for one in (before, after)] for at in (7, most))

    assert old[1] != pytest.approx(new[1], abs=0.01)
    assert f"Predicted next word after “[SEP]” (7): “{last[0]}” {percent(last[1])}" in said(
        pretrained(model, masks_page, text=CAT)
    )
    then, now = (f"“{word}” {percent(share)}" for word, share in (old, new))
    app = pretrained(model, text=CAT, off="d0.1")
    assert "Most changed prediction, after “" in said(app)
    assert f"({most}): {now}before: {then}" in said(app)
    assert any("Next word after" in spec for spec in specs(app))
    assert "Predicted next word after “sat” (3)" in said(pretrained(model, masks_page, text=CAT, cell="3.1"))


def test_each_blank_before_and_after(folder):
    """The one that changed most, or the one that was clicked; without one the page says so."""
    model = folder("BertForMaskedLM")
    before, after = both("encoder", model, BLANK)
    app = pretrained(model, text=BLANK, off="e0.1")
    most = analysis.most_changed(before, after)
    least = 8 - most  # the blanks are 2 and 6
    other = pretrained(model, text=BLANK, off="e0.1", cell=f"{least}.0", effect="blanks")

    for title, at, page in (("Most changed prediction,", most, app), ("Predicted word", least, other)):
        (old, was), (new, share) = (one.prediction.most_probable(at, 1)[0] for one in (before, after))
        one, two = f"{percent(was)} → {percent(share)}", f"{percent(share)}before: “{old}” {percent(was)}"
        assert f"{title} in place of “[MASK]” ({at}): “{new}” {one if old == new else two}" in said(page)
    assert app.button_group(key="effect").value == "one blank"
    assert other.button_group(key="effect").value == "blanks"
    assert "There is no blank in the sentence" in said(pretrained(model, masks_page, text=CAT))


def test_labels_before_and_after(folder):
    """The most probable in words and all of them on a picture; a name with markup is shown as it is."""
    model = folder("BertForSequenceClassification")
    before, after = (analysis.labels(one)[0] for one in both("encoder", model, CAT))
    app = pretrained(model, text=CAT, off="e0.1")

    then, now = (percent(one.probability) for one in (before, after))
    moved = f"{now}, as before" if then == now else f"{then} → {now}"
    assert before.word == after.word
    assert f"Predicted label: “{after.word}” {moved}" in said(app)
    assert "<b>odd</b>" not in html(app)
    assert any("Labels of the sentence" in spec for spec in specs(app))


def test_several_labels_and_a_number_are_said_as_that(folder, tmp_path):
    """By what the configuration says of the same weights."""
    for kind, words in (("multi_label_classification", "Predicted label: "), ("regression", "Predicted number: ")):
        place = shutil.copytree(folder("BertForSequenceClassification"), tmp_path / kind)
        settings = json.loads((place / "config.json").read_text()) | {"problem_type": kind}
        (place / "config.json").write_text(json.dumps(settings))
        record = api.analyze(CAT, str(place))
        first = analysis.labels(record)[0]
        value = f"{first.probability:.4f}" if kind == "regression" else f"“{first.word}” {percent(first.probability)}"

        assert f"{words}{value}" in said(pretrained(str(place), text=CAT))


def test_a_token_is_said_with_its_label(folder):
    """Of a model that labels tokens: with a head off, that of the token whose label moved most."""
    model = folder("BertForTokenClassification")
    before, after = both("encoder", model, CAT)
    at = analysis.most_changed(before, after)
    token = before.sentences[0].tokens[at].text
    app = said(pretrained(model, text=CAT, off="e0.1"))

    assert f"Most changed label, of “{token}” ({at}): “{analysis.predicted_words(after)[at].word}” " in app


def test_the_written_text_before_and_after(folder):
    """An encoder-decoder writes another text; the words that differ are marked."""
    model = folder("BartForConditionalGeneration")
    before, after = (one.prediction.written[0] for one in both("encoder", model, CAT))
    app = pretrained(model, text=CAT, off="e0.1")

    assert f"Output text: {before}" in said(pretrained(model, masks_page, text=CAT))
    assert before != after
    cut = " (cut after 63 tokens)"  # it never ends by itself
    assert f"Output text: {after}{cut}before: {before}{cut}" in said(app)
    assert "<u>" in html(app)
    assert any("Step by step" in spec for spec in specs(app))


def test_a_target_of_an_encoder_decoder_is_read_after_its_start_token(folder):
    """As transformers reads it; the text is then nothing that was cut."""
    model, target = folder("BartForConditionalGeneration"), "a dog ran"
    app = pretrained(model, text=CAT, target=target)

    assert f"Target: {target}" in said(app)
    assert "cut after" not in said(app)
    reads = api.analyze(CAT, model, target=target).read[0].labels
    assert all(token in "".join(specs(app)) for token in reads)


def test_vectors_before_and_after(folder):
    """How far the sentence's vector turned; of several sentences which are most alike, counted as they are chosen."""
    model, three = folder("BertModel"), f"{CAT}\na dog ran\nit was tired"
    before, after = both("encoder", model, three)
    app = pretrained(model, text=three, off="e0.1", sentence="2")
    moved = float(analysis.shift(before, after)[1])

    assert f"The vector of the sentence moved by {turned(moved)} (1 − cosine)" in said(app)
    alike = analysis.similarity(before)
    i, j = max(((0, 1), (0, 2), (1, 2)), key=lambda pair: float(alike[pair]))
    app = pretrained(model, text=three)
    assert f"Most alike of 3 sentences: {i + 1} and {j + 1} {float(alike[i, j]):.2f}" in said(app)
    assert app.selectbox(key="sentence").options == ["Sentence 1", "Sentence 2", "Sentence 3"]
    assert 'class="says' not in html(pretrained(model, text=CAT))


def test_output_vectors_moved_by_a_head(folder):
    """The picture of the change names each token with the share by which its vector moved."""
    model = folder("BertModel")
    before, after = both("encoder", model, CAT)
    app = pretrained(model, text=CAT, off="e0.1")

    (change,) = (spec for spec in specs(app) if "Change of the output" in spec)
    assert all(f"{share:.1%}" in change for share in analysis.output_change(before, after)[: before.read[0].length])


@pytest.mark.parametrize("kind", ["LlamaForCausalLM", "BertForMaskedLM", "BertForSequenceClassification", "BertModel"])
def test_what_is_no_number_is_not_said_as_a_word(folder, kind):
    """A mask that leaves no key, and rows that are NaN then: no word, label or distance comes of it."""
    app = pretrained(folder(kind), text=BLANK, mask="prefix-0", empty="nan")
    says = said(app)

    expected = "moved by NaN" if kind == "BertModel" else "(nothing) the probabilities are not numbersbefore: “"
    assert expected in says


def test_it_opens_on_the_head_with_the_clearest_role(folder, monkeypatch):
    """Where nobody chose one; then the link holds it, so that another text does not lead to another head."""
    monkeypatch.setattr(findings, "clearest", lambda table: 4)
    model = folder("BertModel")
    app = pretrained(model, text=CAT)

    assert (app.query_params["layer"], app.query_params["head"]) == ("e1", "1")
    assert app.session_state["state"].state[SHOW] == 1
    assert pretrained(model, text=CAT, show="2").query_params["head"] == "2"


def test_a_head_says_what_it_looks_like_by_its_weights(folder, monkeypatch):
    """On Heads; the page of the model leads to the clearest head of each role."""

    def roles(row):
        name, value = "previous token", 0.9 if (row["layer"], row["head"]) == (1, 2) else 0.7
        return (Role(name, f"{name}: {value:.2f} on this text", value),)

    monkeypatch.setattr(findings, "roles", roles)
    model = folder("BertModel")

    said = "A guess by the shape of its weights on this text alone: previous token {}."
    assert said.format("0.90") in html(pretrained(model, text=CAT, site="e1", show="2"))
    assert said.format("0.70") in html(pretrained(model, text=CAT, site="e0", show="2"))


# Models with attention in code of their own


def test_a_head_of_deberta_is_switched_off(folder):
    """Its attention is seen and edited in its own code."""
    app = pretrained(folder("DebertaV2Model"), text=CAT)
    press_eye(app, 1)

    assert app.query_params["heads_off"] == "e0.1"
    assert "moved by" in said(app)


def controls(app) -> dict[str, list[bool]]:
    """Of each control that would change something, whether it is disabled."""
    groups = {one.label: [one.proto.disabled] for one in app.button_group if one.label in ("Mask", "Active heads")}
    return groups | {
        "buttons": [one.disabled for one in app.button if one.label in ("all", "none", "invert")],
        "numbers": [one.disabled for one in app.number_input],
        "toggles": [one.disabled for one in app.toggle if one.key == "own_mask"],
    }


def test_a_hybrid_model_says_what_its_other_layers_are(tmp_path):
    """Beside the controls, where its only layer is shown."""
    layers = {"num_hidden_layers": 4, "layer_types": ["linear_attention"] * 3 + ["full_attention"]}
    zoo.save("qwen3_next", "Qwen3NextForCausalLM", tmp_path, **layers)

    assert "layers 0 to 2 are linear attention (gated delta rule), not shown." in html(pretrained(str(tmp_path)))


@pytest.mark.parametrize("page", [heads_page, masks_page])
def test_a_read_only_model_says_why_nothing_can_be_changed(closed, page):
    """All that would change it is disabled; no mask is on, also on the page that begins with one."""
    app = pretrained(closed, page, text=f"{CAT}\na dog")
    found = controls(app)

    assert "DebertaV2Model computes attention in its own code: its weights can be shown" in html(app)
    assert all(all(disabled) for disabled in found.values())
    assert found["toggles"] == [True]
    assert page is masks_page or (found["Mask"] == found["Active heads"] == [True] and len(found["buttons"]) == 3)
    assert 'class="note' not in html(app)
    assert "blocked by causal mask" not in "".join(specs(app))


def test_what_a_link_changes_in_a_read_only_model_is_named_as_left_out(closed):
    """Not ignored silently: a notice names each change, and a button lets go of them."""
    link = {"heads_off": "e0.1-e1.2", "mask": "window-1-0"}
    app = pretrained(closed, text=CAT, **link)

    assert "Left out: mask: window (1 before, 0 after); head 1 of encoder layer 0 off" in html(app)
    assert controls(app)["numbers"] == [True, True]
    assert 'class="says' not in html(app)
    assert app.query_params["heads_off"] == "e0.1-e1.2"

    button(app, "Clear these changes").click().run()

    assert 'class="note' not in html(app)
    assert not {"heads_off", "mask"} & set(app.query_params)


def test_a_read_only_model_shows_no_size_of_its_heads_step_by_step(closed):
    """What stands for its queries is one number wide, which is no d_k of this model."""
    app = pretrained(closed, steps_page, text=CAT, stage="split")

    assert "Shape in code: (B, H, Q, dₖ). B: sentences" in html(app)


def test_a_head_can_be_switched_off_again_after_a_read_only_model(closed, folder):
    """The next model is not read-only because of that."""
    app = pretrained(closed, text=CAT)
    app.text_input(key="hf").set_value(folder("BertModel")).run()
    settled(app)
    press_eye(app, 1)

    assert app.query_params["heads_off"] == "e0.1"
    assert "moved by" in said(app)


# Which model


def test_a_server_with_a_list_of_models_takes_no_other(folder, monkeypatch):
    """No box for a name; a link to a folder or to another model opens the first of the list and says so."""
    listed, others = folder("BertModel"), set(arrivals._arrivals)
    monkeypatch.setenv("ATTNVIZ_MODELS", f"{listed}, {NAME}")
    app = opened(model="huggingface")

    assert not [box for box in app.text_input if box.key == "hf"]
    assert app.selectbox(key="hf").options == [listed, NAME]
    for name in ("/etc", folder("BertForMaskedLM"), "gpt2", "<b>x"):
        app = opened(model="huggingface", hf=name)

        assert app.selectbox(key="hf").value == listed
        assert html(app).count('class="note notice"') == 1
        assert f"&quot;hf&quot;: &#x27;{escape(name[:40])}&#x27; is not one of" in html(app)
    assert set(arrivals._arrivals) - others == {listed}


def test_a_list_lets_in_names_and_no_folders(folder, monkeypatch):
    """What is on the list is a name at a hub, whatever stands on the disk; without an entry none is offered at all."""
    monkeypatch.setenv("ATTNVIZ_MODELS", folder("BertModel"))
    app = pretrained(folder("BertModel"))

    assert "is no name of a model" in html(app)

    monkeypatch.setenv("ATTNVIZ_MODELS", "")
    app = opened(model="huggingface", hf="gpt2")

    assert "huggingface" not in app.selectbox(key="model").options
    assert "&quot;model&quot;: &#x27;huggingface&#x27; is not one of" in html(app)
    assert "this server has no such setting." in html(app)
    assert not [box for box in app.text_input if box.key == "hf"]


@pytest.mark.parametrize(
    "name",
    [
        *(text.text for text in (*hostile.CONTROL[::5], *hostile.MARKUP[::4], *hostile.CODE[::8]) if text.text.strip()),
        *("/etc", "~nobody-is-called-so", "../..", "a" * 5000, "/" + "a" * 5000, "a/b/c", "x@", "C:\\x"),
    ],
)
def test_a_name_that_names_no_model_gets_one_sentence(name):
    """Shown as it was typed, nothing of it read as markup, and the box is still there."""
    typed = name.encode(errors="replace").decode()
    app = pretrained(typed)

    assert html(app).count('class="note') == 1
    assert 'class="note error" role="alert"' in html(app)
    assert "<b>" not in html(app)
    assert "<script" not in html(app)
    assert app.text_input(key="hf").value == typed
    assert button(app, "Try again")


@pytest.mark.parametrize("link", [{}, {"hf": ""}])
def test_without_a_name_the_page_says_what_to_type(link):
    """Nothing was looked for, so nothing is loaded and there is nothing to try again."""
    app = opened(model="huggingface", **link)

    assert html(app).count('class="note') == 1
    assert "Type its name at huggingface.co" in html(app)
    assert 'class="note notice"' in html(app)
    assert not [one for one in app.button if one.label == "Try again"]
    assert not arrivals._arrivals


def test_a_model_that_is_here_is_offered_where_none_is_named(folder, monkeypatch):
    """One press names it."""
    monkeypatch.setattr(pretrained_models, "here", lambda: (folder("BertModel"),))
    app = opened(model="huggingface")
    button(app, "BertModel").click().run()
    app = settled(app)

    assert app.text_input(key="hf").value == folder("BertModel")
    assert app.get("vega_lite_chart")


def test_a_model_that_is_there_again_is_loaded_again(folder, tmp_path):
    """Who mends what was wrong tries again; what was typed meanwhile is kept."""
    place = tmp_path / "later"
    app = pretrained(str(place), text=CAT)

    assert "is not there" in html(app)

    fake_hub.write(place)
    button(app, "Try again").click().run()
    settled(app)

    assert 'class="note' not in html(app)
    assert app.text_area(key="text").value == CAT


def test_of_a_model_that_made_room_for_another_the_page_says_so(folder):
    """What was computed is still shown without it; what is new loads it again."""
    app = pretrained(folder("BertForMaskedLM"), text=CAT)
    line = "not in memory: a run loads it again".replace(" ", "\N{NO-BREAK SPACE}")

    assert line not in html(app)

    sources._models.clear()
    app.run()

    assert line in html(app)
    assert not sources._models.keys()

    app.text_area(key="text").set_value("the dog ran").run()

    assert 'class="note' not in html(app)
    assert line not in html(app.run())


def test_edits_and_places_are_those_of_one_model(folder):
    """Another model begins without them; masks and what somebody typed stay."""
    link = {"heads_off": "d0.1", "layer": "d1", "head": "2", "cell": "1.1", "mask": "window(2, 1)"}
    app = pretrained(folder("LlamaForCausalLM"), text=CAT, **link)
    app.text_input(key="hf").set_value(folder("BertModel")).run()
    settled(app)

    assert 'class="note' not in html(app)
    assert not {"heads_off", "layer", "head", "cell"} & set(app.query_params)
    assert app.query_params["mask"] == "window(2, 1)"
    assert app.text_area(key="text").value == CAT


def test_a_link_restores_what_it_says_also_after_a_wait(folder):
    """What is bound to controls that come only when the model is there."""
    link = {
        "sentence": "2",
        "colors": "logarithmic",
        "own_mask": "false",
        "view": "words",
        "heads_off": "e1.2",
        "layer": "e1",
    }
    app = pretrained(folder("BertForMaskedLM"), text=f"{CAT}\na dog", **link)

    assert 'class="note' not in html(app)
    assert {name: app.query_params[name] for name in link} == link
    assert (app.session_state["state"].state[SENTENCE], app.session_state["state"].state[COLORS]) == (2, "logarithmic")
    assert button(app, "padding not masked")
    assert button(app, "head 2 of encoder layer 1 off")


def test_a_link_to_a_head_that_is_not_there_says_what_is(folder):
    app = pretrained(folder("BertModel"), text=CAT, off="e0.7", site="d0", show="3")

    assert html(app).count('class="note notice"') == 1
    there = "The model has encoder layer 0, encoder layer 1 with 3 heads each, counted from 0"
    assert f"e0.7 does not exist. {there}." in html(app)


# Texts


def test_a_text_that_is_too_long_is_told_both_numbers(folder):
    app = pretrained(folder("BertModel"), text="the " * 20)

    assert "Line 1 has 22 tokens; BertModel reads up to 16. Shorten it." in html(app)
    assert app.text_area(key="text").value == "the " * 20


def test_words_that_the_model_does_not_know_are_named(folder):
    """With what it reads in their place."""
    app = pretrained(folder("BertModel"), text="the qux sat <b>")

    assert html(app).count('class="note notice"') == 1
    assert "This model does not know “qux”" in html(app)
    assert "one unknown word, [UNK]" in html(app)


def test_a_pair_of_texts_is_taken_apart_only_where_there_is_one(folder):
    """The choice of what sees what comes with a pair, and the picture says what is hidden."""
    model = folder("BertModel")
    app = pretrained(model, text="the cat ||| a dog ran", view="hide.ab")

    assert app.button_group(key="view pair").value == "A to B"
    assert 'class="note' not in html(app)
    assert any("special tokens are hidden" in spec for spec in specs(app))
    alone = pretrained(model, text=CAT, view="ab")
    assert not [group for group in alone.button_group if group.key == "pair"]


def test_a_load_is_canceled_at_any_stage_and_made_when_that_is_asked_for(folder, monkeypatch):
    """The page says so, and does not begin again by itself."""
    go_on, load = threading.Event(), sources.loading.load
    monkeypatch.setattr(sources.loading, "load", lambda *of: go_on.wait(60) and load(*of))
    sources._models.clear()
    app = opened(model="huggingface", hf=folder("BertModel"), text=CAT)
    app.button(key="cancel").click().run()

    assert "is not loaded: you canceled that." in html(app.run())
    assert not [button for button in app.button if button.key == "cancel"]

    go_on.set()
    app.button(key="try again").click().run()
    settled(app)

    assert app.get("vega_lite_chart")


# Downloads


def test_a_download_is_asked_for_canceled_and_then_made(hub):
    """The page says how much it is before anything is fetched; a canceled one is asked for again."""
    app = pretrained(NAME, text="w5")

    assert f"{NAME} is not on this machine." in html(app)
    assert "model.safetensors " in html(app)
    assert "huggingface.co" not in html(app)

    hub.fault = "hang in a file"
    app.button(key="download").click().run()

    assert f"Downloading {NAME}" in html(app)

    app.button(key="cancel").click().run()
    settled(app)
    hub.fault = None

    assert app.button(key="download")

    app.button(key="download").click().run()
    settled(app)

    assert 'class="note error"' not in html(app)
    assert app.get("vega_lite_chart")
