"""The trained models in the app: the first screen, the choice of a model, what it says, and how it came to be."""

import json
import re
import shutil
from html import escape, unescape

import pytest
from examples import some
from test_pages import button, captions, heads_page, html, masks_page, opened

from attnviz import api
from attnviz.core import assets
from attnviz.core.amounts import percent
from attnviz.core.edits import Edits, Site
from attnviz.core.request import Request
from attnviz.models import trained
from attnviz.sources import cards
from attnviz.sources import trained as trained_source
from attnviz.ui import cache
from attnviz.ui.shared import examples, words
from attnviz.ui.shared import models as listed
from attnviz.ui.shared.edits import OFF
from attnviz.ui.shared.lengths import SENTENCE_ENDS

CARD = cards.card("translator")
SITE, HEAD = CARD.opens
FINDING = CARD.behavior(SITE, HEAD)
FIRST = CARD.examples[0]
STEPS = trained.checkpoints("translator")


def model_page():
    from attnviz.ui import frame, settings
    from attnviz.ui.about import panel

    frame.body(lambda source, lines: panel.content(source, settings.LINKED), frame.selection())


def said(app) -> str:
    """What the model says, with its marks."""
    return next(part for part in (e.proto.body for e in app.get("html")) if 'class="says' in part)


def plainly_said(app) -> str:
    """The same without its marks."""
    return unescape(re.sub("<[^>]*>", "", said(app)))


def chosen(app, model: str):
    app.selectbox(key="model").set_value(model).run()
    assert not app.exception
    return app


@pytest.fixture
def models(tmp_path, monkeypatch):
    """A copy of the shipped models, to be damaged; nothing that was read before is remembered."""
    found = assets.path
    for name in trained_source.Trained.names:
        shutil.copytree(found(f"models/{name}"), tmp_path / "models" / name)
    monkeypatch.setattr(assets, "path", lambda name: tmp_path / name if name.startswith("models") else found(name))
    remembered = (trained.load, cards.card, trained_source._vocabularies)
    for each in remembered:
        each.cache_clear()
    cache.SHARED.clear()
    yield tmp_path / "models"
    monkeypatch.undo()
    for each in remembered:
        each.cache_clear()
    cache.SHARED.clear()


def test_the_first_screen_shows_what_a_head_of_the_translator_does():
    """Nothing is clicked: a head between two languages, the translation, what the head does, and how that is known."""
    app = opened(model="translator")

    assert 'class="note' not in html(app)
    assert app.text_area(key="text").value == FIRST
    assert f"Head {HEAD} of {SITE}" in html(app)
    assert SITE.kind == "cross"
    assert f"This head {FINDING.does.rstrip('. ')}, in {percent(FINDING.rates[0])} of cases." in html(app)
    assert "Evidence" in [fold.label for fold in app.expander]
    assert cache.record(cache.source("translator"), Request((FIRST,))).prediction.written[0] in said(app).replace(
        "&#x27;", "'"
    )
    assert len(app.get("vega_lite_chart")) == 3


def test_with_a_change_what_a_head_does_is_said_of_the_original_model():
    """That is what it was measured of."""
    assert "of cases, in the original model." in html(opened(model="translator", off="e0.0"))


def test_a_link_without_a_model_and_with_more_than_a_text_means_the_translator():
    """As ever: it is the first of the sources. The link that the page writes says so."""
    app = opened(model=None, colors="logarithmic")

    assert app.selectbox(key="model").value == api.DEFAULT == "translator"
    assert set(app.query_params) == {"model", "colors"}
    assert f"Head {HEAD} of {SITE}" in html(app)


def test_each_model_of_the_list_has_a_line_that_says_what_it_is():
    """What it does, what it shows, and of those with a card how large it is."""
    shown = html(opened(model="scratch"))

    assert [name for name in api.SOURCES if escape(listed.line(name)) not in shown] == []
    assert {*api.SOURCES} < {*words.MODELS}
    assert "0.7 million weights" in listed.line("translator")
    assert len({listed.line(name) for name in ("mine", "also mine")}) == 1


@pytest.mark.parametrize("page", [heads_page, masks_page, model_page])
@pytest.mark.parametrize("model", api.SOURCES)
def test_every_model_opens_on_every_page(model, page):
    """No complaint, the link names the model, and the text is one that it knows."""
    app = opened(page, model=model)

    assert not app.exception
    assert 'class="note' not in html(app)


def test_models_can_be_chosen_in_any_order():
    """Heads off, site, head, step and cell are the new model's own; masks stay; nothing breaks on the way."""
    app = opened(model="translator", off="c0.1", site="e1", show="2", step=str(STEPS[1]), cell="1.1", mask="window(2)")
    for model in ("scratch", "story", "translator", "induction", "scratch", "translator", "story"):
        chosen(app, model)

        assert 'class="note' not in html(app)
        assert not {"heads_off", "layer", "head", "step", "cell"} & set(app.query_params)
        assert app.query_params["mask"] == "window(2)"


def test_an_untouched_example_follows_the_model():
    """It is replaced by the first example of the next model."""
    app = opened(model="translator")
    pill, text = list(examples.of_model(cache.source("translator")).items())[1]
    app.menu_button(key="example").click(pill).run()

    assert app.text_area(key="text").value == text == CARD.examples[1]

    chosen(app, "story")

    assert app.text_area(key="text").value == cards.card("story").examples[0]


@pytest.mark.parametrize("model", [name for name, kind in api.SOURCES.items() if kind.reads == "text"])
def test_each_example_has_a_name_of_its_own(model):
    """However alike they begin, and however long they are: choosing one fills the box with all of it."""
    app = opened(model=model)
    source = cache.source(model)
    texts = examples.of_model(source)

    assert tuple(texts.values()) == (source.card.examples if source.card else tuple(words.EXAMPLES.values()))
    for name, text in some([*texts.items()], 2):
        app.menu_button(key="example").click(name).run()

        assert app.text_area(key="text").value == text
        assert 'class="note' not in html(app)


def test_what_somebody_typed_stays_with_another_model():
    """Only an untouched example is replaced."""
    app = opened(model="translator", text="the red cat sleeps")
    for model in ("scratch", "induction", "translator"):
        chosen(app, model)

        assert app.text_area(key="text").value == "the red cat sleeps"


def test_a_link_restores_model_site_head_step_edits_and_figure():
    """All of it comes back, without a notice."""
    link = {"model": "translator", "layer": "c0", "head": "1", "step": str(STEPS[-2]), "heads_off": "c0.0-d1.1"}
    app = opened(**link, effect="next word", own_mask="false", mask="window", text="the red cat sleeps")

    assert 'class="note' not in html(app)
    assert "Head 1 of cross layer 0" in html(app)
    assert button(app, "head 0 of cross layer 0 off")
    assert button(app, "built-in causal mask off")
    assert button(app, f"Training step: {STEPS[-2]:,}")
    assert app.button_group(key="effect").value == "next word"
    assert {name: app.query_params[name] for name in link if name != "model"} == {
        name: value for name, value in link.items() if name != "model"
    }


@pytest.mark.parametrize(
    "link", [{"layer": "c9"}, {"head": "77"}, {"step": "5"}, {"heads_off": "e0.77"}, {"cell": "99.1"}]
)
def test_a_link_to_what_the_model_does_not_have_says_so(link):
    """One notice, and the model's own beginning instead."""
    app = opened(model="translator", **link)
    (value,) = link.values()

    assert not app.exception
    assert html(app).count('class="note notice"') == 1
    assert f"{value} does not exist" in html(app)
    assert f"Head {HEAD} of {SITE}" in html(app)


def test_words_that_the_model_does_not_know_are_named():
    """One notice names them with a word that is spelled like it; markup in them is shown as typed."""
    app = opened(model="translator", text=f"{FIRST} blackk <b>qux</b>")

    assert html(app).count('class="note notice"') == 1
    assert "“blackk” (did you mean “black”?)" in html(app)
    assert "reads them all as one unknown word, marked" in html(app)
    assert "<b>qux" not in html(app)


def test_a_word_from_right_to_left_does_not_reorder_what_is_said_of_it():
    """In the notice and in the prediction it is between isolates, with its quotes."""
    app = opened(model="story", text="the שלום")

    assert "does not know \u2068“שלום”\u2069;" in html(app)
    assert "after \u2068“שלום(?)”\u2069 (2)" in html(app)


def test_a_long_list_of_unknown_words_is_cut():
    """The first few are named, and the others counted."""
    app = opened(model="translator", text="the " + " ".join(f"zz{letter}" for letter in "qwxyz"))

    assert "and 1 more; it reads them all as" in html(app)


def test_the_written_text_stands_beside_the_one_before_a_change():
    """With all heads of a site off the translator writes something else; the words that differ are marked."""
    heads = "-".join(f"c{layer}.{head}" for layer in range(2) for head in range(4))
    app = opened(model="translator", off=heads)
    now = cache.record(cache.source("translator"), Request((FIRST,))).prediction.written[0]

    assert "Translation" in said(app)
    assert "before" in said(app)
    assert "<u>" in said(app)
    assert sum(word in said(app) for word in now.split()) == len(now.split())

    button(app, "Reset all").click().run()

    assert "Translation" in said(app)
    assert "<u>" not in said(app)


def test_a_change_that_changes_no_word_says_so():
    """A window wide enough for the whole sentence hides nothing."""
    app = opened(model="translator", mask="window-40-40")

    assert "Translation, as before" in said(app)


@pytest.mark.parametrize("model", ["story", "induction"])
def test_a_language_model_says_the_next_word(model):
    """Where the head has its role, else after the last token, or that of the selected row; also before a change."""
    app = opened(masks_page, model=model)
    record = cache.record(cache.source(model), Request((cards.card(model).examples[0],)))
    asked = 7 if model == "story" else record.read[0].length - 1
    ((word, probability),) = record.prediction.most_probable(asked, 1)

    assert f"({asked})" in said(app)
    assert percent(probability) in said(app)
    assert f">“{escape(word)}”" in said(app)

    app = opened(model=model, cell="2.1", off="d0.0")

    assert "(2)" in said(app)
    assert "before" in said(app) or " → " in said(app)


def test_random_weights_say_nothing():
    """There is no sentence about a word, no choice of figures, and no slider; but a caution."""
    app = opened(model="scratch")

    assert 'class="says' not in html(app)
    assert not app.select_slider
    assert not [group for group in app.button_group if group.key == "effect shown"]
    assert "shows the mechanics, not meaning" in html(app)


def test_outputs_are_compared_only_where_the_same_was_written():
    """Where the model wrote another text the page says so, and shows no figure of how far vectors moved."""
    source, found = cache.source("translator"), set()
    before = cache.record(source, Request((FIRST,))).prediction.written
    for site in source.sites:
        for off in ({(site, 0)}, {(site, head) for head in range(source.num_heads)}):
            same = cache.record(source, Request((FIRST,), edits=Edits(heads_off=off))).prediction.written == before
            app = opened(model="translator", effect="output vectors", off=OFF.encode(off))

            assert ("wrote another text" in html(app)) == (not same)
            assert len(app.get("vega_lite_chart")) == 2 + same
            found.add(same)

    assert found == {True, False}


def test_a_head_of_which_nothing_is_known_says_which_to_look_at():
    """The button leads there."""
    source = cache.source("translator")
    site, head = next((site, head) for site in source.sites for head in range(4) if CARD.behavior(site, head) is None)
    app = opened(model="translator", site=f"{site.kind[0]}{site.layer}", show=str(head))

    assert "What this head does was not measured. One that was:" in html(app)
    assert "Evidence" not in [fold.label for fold in app.expander]

    app.button(key="to instead").click().run()

    assert "Evidence" in [fold.label for fold in app.expander]


def test_a_training_step_of_a_link_is_a_change_that_can_be_taken_back():
    """Every picture says the step of a link; letting go of it shows the trained model."""
    app = opened(model="translator", step=str(STEPS[0]))

    assert "Once trained, this head" in html(app)
    drawn = [spec.replace("\\n", " ") for spec in specs(app) if "head 1" not in spec]  # a title may take two lines
    assert all("translator after step 0" in spec for spec in drawn)

    button(app, "Training step: 0 (untrained)").click().run()

    assert "step" not in app.query_params
    assert "Once trained" not in html(app)


def specs(app) -> list[str]:
    """The specification of each chart with its data, as text."""
    return [
        chart.proto.spec + str(chart.proto.data.data) + "".join(str(data.data.data) for data in chart.proto.datasets)
        for chart in app.get("vega_lite_chart")
    ]


def test_the_masks_page_shows_the_mask_of_the_decoder():
    """It is the model's own: nothing is changed. Turned off, the future is seen, and a chip says so."""
    app = opened(masks_page, model="translator")

    assert "Mask &#x27;causal&#x27;" in html(app)
    assert "decoder layer 1" in html(app)
    assert "Original model" in captions(app)

    app.toggle(key="own_mask").set_value(False).run()

    assert "No mask, " in html(app)
    assert button(app, "built-in causal mask off")


def test_sites_of_every_kind_can_be_looked_at():
    """Kind and layer are one choice; a selected cell stays with another layer of the same kind alone."""
    app = opened(model="translator", site="c1", cell="1.1")
    app.selectbox(key="layer").set_value(Site("encoder", 1)).run()

    assert app.query_params["layer"] == "e1"
    assert "of encoder layer 1" in html(app)
    assert "cell" not in app.query_params

    app.query_params["cell"] = "1.1"
    app.run()
    app.selectbox(key="layer").set_value(Site("encoder", 0)).run()

    assert (app.query_params["layer"], app.query_params["cell"]) == ("e0", "1.1")


def damage(path) -> None:
    path.write_bytes(path.read_bytes()[:100])


@pytest.mark.parametrize("file", ["weights", "card.json", "vocabulary.json"])
@pytest.mark.parametrize("page", [heads_page, masks_page, model_page])
def test_a_model_with_a_damaged_file_opens_another_with_one_note(models, page, file):
    """The note names the file; the next source that can be used is shown, and the broken one can be left."""
    name = f"{STEPS[-1]:05d}.safetensors" if file == "weights" else file
    damage(models / "translator" / name)
    app = opened(page, model="translator")
    others = [other for other in api.SOURCES if other != "translator"]

    assert not app.exception
    assert html(app).count('class="note') == 1
    assert f"translator/{name}" in html(app)
    assert f"Here is &#x27;{others[0]}&#x27; instead." in html(app)

    chosen(app, others[1])

    assert 'class="note' not in html(app)


def test_with_no_model_there_random_weights_are_shown(models):
    """Even without one file of weights the app opens."""
    shutil.rmtree(models)
    app = opened(model="story")

    assert not app.exception
    assert html(app).count('class="note') == 1
    assert "is missing" in html(app) or "are missing" in html(app)
    assert len(app.get("vega_lite_chart")) >= 2


def test_a_damaged_step_of_the_training_shows_the_trained_model(models):
    """One note names the file."""
    damage(models / "translator" / f"{STEPS[0]:05d}.safetensors")
    app = opened(model="translator", step=str(STEPS[0]))

    assert not app.exception
    assert html(app).count('class="note') == 1
    assert f"translator/{STEPS[0]:05d}.safetensors" in html(app)
    assert all("after step" not in spec for spec in specs(app))


def test_a_card_that_opens_with_a_site_that_is_not_there_opens_with_the_first(models):
    """What a file says is checked before it is used."""
    path = models / "translator" / "card.json"
    card = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(card | {"opens": {"kind": "cross", "layer": 77, "head": 99}}), encoding="utf-8")
    app = opened(model="translator")

    assert not app.exception
    assert "Head 0 of encoder layer 0" in html(app)


def test_the_model_page_says_what_is_known():
    """Numbers with their goals, the commands that measure them, folded, findings, limits, and the learning curve."""
    app = opened(model_page, model="translator")

    assert CARD.title in html(app)
    for measure in CARD.measured:
        assert f">{percent(measure.value)}<" in html(app)
    assert f">{CARD.command}</pre></details>" in html(app)
    heads = [found for found in CARD.behaviors for _ in found.heads]
    assert len([b for b in app.button if b.key and b.key.startswith("to ")]) == len(heads)
    for found in heads:
        assert f"{percent(found.on)} → {percent(found.off[0])}" in html(app)
        assert all(f"<li>{escape(part)}</li>" in html(app) for part in SENTENCE_ENDS.split(found.evidence))
    assert len(app.get("vega_lite_chart")) == 1


def test_each_role_of_a_head_has_its_own_numbers_and_what_costs_most_comes_first():
    """Of the head that finds both names and pronouns neither hides the other; the score says what a guess gets."""
    app = opened(model_page, model="story")
    said = [f"{percent(one.on)} → {percent(one.off[0])}" for one in api.load("story").card.behaviors]
    places = sorted(said, key=html(app).index)

    assert places[0] == "100.0% → 4.9%"
    assert places[1:] == ["99.9% → 61.1%", "100.0% → 81.0%", "99.9% → 86.0%"]
    assert "gets 41.6%" in html(app)
    assert "story · Short stories" in html(app)


def test_a_finding_on_the_model_page_leads_to_its_head():
    """The button puts site and head into the link."""
    app = opened(model_page, model="translator")
    found = CARD.behaviors[-1]
    app.button(key=f"to {found.site} {found.heads[0]} {found.role}").click().run()

    assert app.query_params["layer"] == f"{found.site.kind[0]}{found.site.layer}"
    assert app.query_params["head"] == str(found.heads[0])


def test_random_weights_have_no_card():
    """The page says what they are."""
    app = opened(model_page, model="scratch")

    assert "Random weights, all from one seed" in html(app)
    assert not app.get("vega_lite_chart")


LONG = "The cat sat on the mat. " * 20 + "The dog sat down."


def test_a_text_that_is_too_long_is_no_dead_end():
    """The line is named; its beginning, its sentences or another model are one button away."""
    longest = CARD.sizes["longest sentence"]

    def refused():
        app = opened(model="translator", text=f"the cat\n{LONG}")
        assert f"Line 2 has 146 tokens; &#x27;translator&#x27; reads up to {longest}." in html(app)
        return app

    app = refused()
    button(app, f"Use the first {longest} tokens").click().run()
    before, cut = app.text_area(key="text").value.splitlines()
    assert before == "the cat"
    assert LONG.startswith(cut)
    assert cache.source("translator").tokenize([cut])[0].length == longest
    assert 'role="alert"' not in html(app)

    app = refused()
    button(app, "Split into sentences").click().run()
    assert app.text_area(key="text").value.splitlines() == [
        "the cat",
        *["The cat sat on the mat."] * 20,
        "The dog sat down.",
    ]
    assert 'role="alert"' not in html(app)

    app = refused()
    button(app, "Switch to 'constructed', which reads it").click().run()
    assert app.text_area(key="text").value == f"the cat\n{LONG}"
    assert app.query_params["model"] == "constructed"
    assert 'role="alert"' not in html(app)


def test_only_ways_on_that_work_are_offered():
    """Of many sentences the first are offered; where none ends, or one is too long itself, there is no such button."""
    app = opened(model="translator", text="The cat sat on the mat. " * 40)
    button(app, "Use the first 32 sentences").click().run()
    assert app.text_area(key="text").value.splitlines() == ["The cat sat on the mat."] * 32
    assert 'role="alert"' not in html(app)

    for text in ("the cat " * 80, f"The cat. {'the cat ' * 80}"):
        titles = [one.label for one in opened(model="translator", text=text).button]
        assert not [title for title in titles if "sentences" in title]
        assert [title for title in titles if "tokens" in title]


def test_causal_leaves_cross_attention_alone_unless_asked_for():
    """The chip says where it acts; a link to a mask that hides no future acts everywhere, as ever."""
    app = opened(model="translator", site="c1", mask="subsequent")

    assert button(app, "Causal (hide the future) · encoder, decoder")
    assert "blocked by" not in "".join(specs(app)[:2])

    app.toggle(key="cross").set_value(True).run()

    assert app.query_params["cross"] == "true"
    assert button(app, "Causal (hide the future) · all layers")
    assert "blocked by" in "".join(specs(app)[:2])
    assert button(opened(model="translator", mask="window-1"), "window (1 before, 0 after) · all layers")


def test_a_rule_that_does_not_act_on_the_shown_layer_leads_to_one_where_it_does():
    """Chosen in the menu, where a person waits for what it does; one step of undo. A window acts where one stands."""
    app = opened(model="translator", site="c1", cell="2.1")
    app.button_group(key="mask rules").set_value(["causal"]).run()

    assert app.query_params["layer"] == "e0"
    assert "cell" not in app.query_params
    assert "blocked by" in "".join(specs(app)[:2])

    app.button(key="icon undo").click().run()

    assert app.query_params["layer"] == "c1"

    app = opened(model="translator", site="c1")
    app.button_group(key="mask rules").set_value(["window"]).run()

    assert (app.query_params["layer"], app.query_params["mask"]) == ("c1", "window(2)")
    assert "own_mask" not in app.query_params


def test_a_chip_names_few_heads_and_counts_many():
    """A number of a layer is none of its heads; a list of lengths keeps its first."""
    app = opened(num_heads="8", off="-".join([f"e0.{head}" for head in range(6)] + ["e1.0", "e1.7"]))

    assert button(app, "6 heads of encoder layer 0 off")
    assert button(app, "heads 0, 7 of encoder layer 1 off")
    assert button(opened(mask=f"documents-{'_'.join(['3'] * 40)}"), f"documents of {'3, ' * 16}… · all layers")


def test_causal_is_not_offered_where_it_is_built_in():
    """It would change nothing; where the built-in mask is off, it can be chosen."""
    app = opened(model="story")

    assert button(app, "Causal (hide the future)").disabled
    assert "Causal (hide the future)" not in app.button_group(key="mask rules").options
    assert app.toggle(key="own_mask").label == "Built-in mask: causal"

    app.toggle(key="own_mask").set_value(False).run()

    assert "Causal (hide the future)" in app.button_group(key="mask rules").options


def test_a_head_with_two_roles_is_told_by_what_it_does_on_this_text():
    """Its other role stands behind; where it does neither, both stand together. There the page opens, too."""
    pronoun = opened(model="story")

    assert "This head looks at the subject (“cat”) where he, she, it or they may come next, in 99.5%" in html(pronoun)
    assert "On other texts it looks at the second of two names" in html(pronoun)

    name = opened(model="story", text="Anna and Tom went to the park. Anna gave the ball to")

    assert "This head looks at the second of two names" in html(name)
    assert "On other texts it looks at the subject" in html(name)

    neither = opened(model="story", text="The cat sat on the")

    assert "where one comes again, and looks at the subject" in html(neither)
    assert "On other texts" not in html(neither)


def test_a_selected_row_is_told_of_the_one_that_changed_most():
    """Where nobody selected one, the page speaks of that alone."""
    most = "Most changed prediction, after “it” (8): “was” goes from 35.9% to 15.7%."

    assert most in unescape(html(opened(model="story", off="d1.0", cell="7.2")))
    app = opened(model="story", off="d1.0")
    assert most not in unescape(html(app))
    assert plainly_said(app) == "Most changed prediction, after “it” (8): “was” 35.9% → 15.7%"
