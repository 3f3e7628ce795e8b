"""Task of a checkpoint, read from its files and shown, compared with the output of transformers itself."""

import json

import pytest
import torch
import transformers
import zoo
from families import TAPPED, save, words
from torch.testing import assert_close

import attnviz
from attnviz import analysis, figures
from attnviz.analysis import tables
from attnviz.cli import main
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.sources.huggingface import embedding, loading
from attnviz.sources.huggingface.source import HuggingFace
from attnviz.studies import ablation

pytestmark = pytest.mark.usefixtures("nothing_is_kept")
TEXTS = ["w5 w6 w7 w8 w9", "w20 w21 w22"]
NAMES = ("joy", "anger", "fear")
OFF = Edits(heads_off={(Site("encoder", 0), 1)})


def opened(folder, head, *, family="Bert", **settings) -> HuggingFace:
    """A tiny model with a head, and random weights that are far from even."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**TAPPED[family], **settings)
    model = getattr(transformers, head)(config)
    for name, parameter in model.named_parameters():
        if "classifier" in name or "cls" in name or "score" in name:
            torch.nn.init.normal_(parameter)
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return HuggingFace(save(folder, model, words(ends=True), model_input_names=inputs))


def named(**settings):
    return settings | {"id2label": dict(enumerate(NAMES)), "label2id": {name: i for i, name in enumerate(NAMES)}}


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        (named(), "one"),
        (named(problem_type="single_label_classification"), "one"),
        (named(problem_type="multi_label_classification"), "several"),
        (named(problem_type="regression"), "number"),
        ({"num_labels": 1, "problem_type": "regression"}, "number"),
        ({"num_labels": 1}, "one"),
        ({"num_labels": 1, "sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}, "number"),
        ({"num_labels": 1, "sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}}, "one"),
    ],
)
def test_labels_are_those_of_the_pipeline(tmp_path, settings, kind):
    """A softmax, a logistic function of each, or the numbers themselves, by what the configuration says."""
    model = opened(tmp_path, "BertForSequenceClassification", **settings)
    record = model.run(model.tokenize(TEXTS))
    pipe = transformers.pipeline("text-classification", str(tmp_path), top_k=None)
    options = {"function_to_apply": "none"} if kind == "number" else {}

    assert record.label_kind == kind
    for sentence, text in enumerate(TEXTS):
        (expected,) = pipe([text], **options)
        found = {one.word: one.probability for one in analysis.labels(record, sentence=sentence)}
        assert found == pytest.approx({one["label"]: one["score"] for one in expected}, abs=1e-5)


def test_a_number_is_no_probability(tmp_path):
    """In words, tables and pictures; a head that is off moves it, and a file keeps what it is."""
    model = opened(tmp_path / "model", "BertForSequenceClassification", num_labels=1, problem_type="regression")
    before, after = (model.run(model.tokenize(TEXTS), edits) for edits in (Edits(), OFF))
    value, old = float(after.labels[1][0]), float(before.labels[1][0])

    assert f"“LABEL_0” {value:.4f} (before the change {old:.4f})" in figures.labels(after, before=before).description
    assert [*tables.labels_table(after, before=before)] == ["label", "number", "number_before"]
    assert "%" not in str(figures.labels(after, before=before).chart.to_dict())
    assert (model.facts.does, before.labels[0]) == ("classifies (regression)", ("LABEL_0",))
    attnviz.save(after, tmp_path / "run.attn")
    assert attnviz.read(tmp_path / "run.attn").label_kind == "number"


def test_several_labels_are_measured_one_by_one(tmp_path):
    """Without a head, how far each label moved: the divergence of what holds or does not."""
    model = opened(tmp_path, "BertForSequenceClassification", **named(problem_type="multi_label_classification"))
    before, after = (model.run(model.tokenize(TEXTS[:1]), edits) for edits in (Edits(), OFF))
    p, q = (record.labels[1][0].double().sigmoid() for record in (before, after))
    expected = (p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()).mean()

    table = ablation.sweep(model, before.sentences).table.set_index(["site", "head"])
    assert table.loc[("encoder layer 0", 1), "divergence"] == pytest.approx(float(expected), rel=1e-4, abs=2e-7)


@pytest.mark.parametrize(("family", "kind"), [("Bert", "encoder"), ("GPT2", "decoder")])
def test_a_model_that_labels_tokens_gives_each_token_its_label(tmp_path, family, kind):
    """With the probability of transformers, special tokens and all; in the rows of maps, too."""
    model = opened(tmp_path, f"{family}ForTokenClassification", family=family, **named())
    record = model.run(model.tokenize(TEXTS))
    own = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)

    for sentence, text in enumerate(TEXTS):
        with torch.inference_mode():
            expected = own(**tokenizer(text, return_tensors="pt")).logits[0].softmax(-1)
        found = analysis.predicted_words(record, sentence=sentence)
        assert [one.word for one in found] == [NAMES[i] for i in expected.argmax(-1)]
        assert [one.probability for one in found] == pytest.approx(expected.amax(-1).tolist(), abs=1e-5)
    assert (model.facts.does, record.vectors) == ("labels each token", None)
    assert "Labels of the tokens" in figures.step_by_step(record).title
    assert figures.next_word(record, 1).description.startswith("Most probable label of “w5”")
    assert set(record.predicted(Site(kind, 0))) <= set(NAMES)


@pytest.mark.parametrize(
    "head", ["BertForQuestionAnswering", "BertForMultipleChoice", "ElectraForPreTraining", "GPT2DoubleHeadsModel"]
)
def test_a_head_that_is_not_shown_is_named(tmp_path, head):
    """Its attention and hidden states are; no vectors of sentences are made up."""
    family = head.partition("For")[0].removesuffix("DoubleHeadsModel")
    model = opened(tmp_path, head, family=family)
    record = model.run(model.tokenize(TEXTS))

    assert model.facts.does == f"gives hidden states (the head of {head} is not shown)"
    assert record.vectors is record.labels is record.prediction is None
    assert record.steps


# Vectors of sentences


def pooled(folder, config, *, name="1_Pooling", more=()) -> None:
    """Make a folder one of sentence-transformers."""
    modules = [("", "sentence_transformers.models.Transformer"), (name, "sentence_transformers.models.Pooling"), *more]
    listed = [{"idx": i, "name": str(i), "path": path, "type": kind} for i, (path, kind) in enumerate(modules)]
    (folder / "modules.json").write_text(json.dumps(listed))
    loading._models.clear()
    (folder / name).mkdir()
    (folder / name / "config.json").write_text(json.dumps({"word_embedding_dimension": 32} | config))


def by_hand(folder, text, mode):
    """The vector of a sentence alone, as sentence-transformers' documentation writes it."""
    own = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        rows = own(**transformers.AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt"))[0][0]
    n = len(rows)
    return {
        "cls": rows[0],
        "mean": rows.sum(0) / n,
        "max": rows.max(0).values,
        "lasttoken": rows[-1],
    }[mode]


@pytest.mark.parametrize("mode", embedding.MODES)
@pytest.mark.parametrize("older", [True, False])
def test_vectors_are_pooled_as_the_folder_says(tmp_path, mode, older):
    """In both forms of its file; and the pooling is named where the vectors are compared."""
    names = {mode: f"pooling_mode_{mode}" for mode in embedding.MODES}
    names |= {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "max": "pooling_mode_max_tokens"}
    opened(tmp_path, "BertModel")
    pooled(
        tmp_path, {names[mode]: True, "pooling_mode_mean_tokens": mode == "mean"} if older else {"pooling_mode": mode}
    )
    model = HuggingFace(str(tmp_path))
    record = model.run(model.tokenize(TEXTS))

    for sentence, text in enumerate(TEXTS):
        assert_close(record.vectors[sentence], by_hand(tmp_path, text, mode), rtol=1e-4, atol=1e-5)
    assert model.facts.does == f"sentence embeddings ({embedding.MODES[mode][0]})"
    assert record.pooling == embedding.MODES[mode][0]


DENSE = ("2_Dense", "sentence_transformers.models.Dense"), ("3_Normalize", "sentence_transformers.models.Normalize")


@pytest.mark.parametrize(
    ("config", "more", "does"),
    [
        (None, (), "mean of tokens, no pooling named"),
        ({"pooling_mode": "weightedmean"}, (), "mean of tokens, without 1_Pooling, so no vectors"),
        ({"pooling_mode": ["cls", "mean"]}, (), "mean of tokens, without 1_Pooling, so no vectors"),
        ({"pooling_mode_cls_token": True}, DENSE, "first token, without 2_Dense, so no vectors"),
    ],
)
def test_a_module_that_is_not_applied_is_named(tmp_path, config, more, does):
    """Without it there are no vectors: an unknown pooling, or a dense layer after it."""
    opened(tmp_path, "BertModel")
    if config:
        pooled(tmp_path, config, more=more)
    model = HuggingFace(str(tmp_path))

    assert model.facts.does == f"sentence embeddings ({does})"
    assert (model.run(model.tokenize(TEXTS)).vectors is None) == ("no vectors" in does)


def test_an_embedding_model_made_of_a_decoder_gives_vectors(tmp_path):
    """Its folder says so, though its class predicts the next token."""
    opened(tmp_path, "GPT2LMHeadModel", family="GPT2")
    pooled(tmp_path, {"pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": False})
    record = attnviz.analyze(TEXTS, str(tmp_path))

    assert record.prediction is None
    assert_close(record.vectors[1], by_hand(tmp_path, TEXTS[1], "lasttoken"), rtol=1e-4, atol=1e-5)


def test_a_model_that_needs_an_image_is_refused(tmp_path):
    """Its first run fails without it."""
    text, vision = transformers.BertConfig(**TAPPED["Bert"]), transformers.ViTConfig(**TAPPED["ViT"])
    config = transformers.VisionTextDualEncoderConfig.from_vision_text_configs(vision, text, projection_dim=8)
    transformers.VisionTextDualEncoderModel(config).save_pretrained(tmp_path)
    zoo.tokenizer().save_pretrained(tmp_path)

    with pytest.raises(InputError, match="does not read text alone"):
        HuggingFace(str(tmp_path))


def test_a_default_prompt_stands_before_each_text_and_is_named(tmp_path):
    """As sentence-transformers puts it there if nothing else is asked for."""
    opened(tmp_path, "BertModel")
    pooled(tmp_path, {"pooling_mode_mean_tokens": True})
    settings = {"prompts": {"query": "w9 w10 ", "passage": "w5 "}, "default_prompt_name": "query"}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(settings))
    model = HuggingFace(str(tmp_path))
    record = model.run(model.tokenize(TEXTS[:1]))

    assert_close(record.vectors[0], by_hand(tmp_path, f"w9 w10 {TEXTS[0]}", "mean"), rtol=1e-4, atol=1e-5)
    assert model.facts.does == "sentence embeddings (mean of tokens, prompt 'w9 w10 ')"


def test_nan_in_a_weight_is_said_with_layer_head_and_position(tmp_path, capsys):
    """In the record and in the shell, as `attnviz check` says it; the model is loaded all the same."""
    model = opened(tmp_path, "GPT2LMHeadModel", family="GPT2")
    width = model.loaded.model.transformer.h[1].attn.embed_dim
    with torch.no_grad():
        model.loaded.model.transformer.h[1].attn.c_attn.weight[0, width + 1] = torch.nan
    record = attnviz.analyze(TEXTS[0], model)
    sentence = record.findings[-1]

    assert sentence.startswith("The output is NaN at position 0")
    assert "the key of decoder layer 1, head 0, position 0, is the first" in sentence
    assert main(["predict", TEXTS[0], "--model", str(tmp_path)]) == 0
    assert sentence in capsys.readouterr().err
