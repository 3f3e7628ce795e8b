"""Models of Hugging Face in the shell: tiny ones from folders, and one from a hub on this machine."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

sys.path.insert(0, str(Path(__file__).parent / "sources" / "huggingface"))

import fake_hub
import zoo
from fake_hub import WORDS
from families import build

from attnviz import analysis, api
from attnviz.analysis.views import View, see
from attnviz.cli import terminal
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.sources.huggingface import source, trial
from attnviz.sources.huggingface.hub import DownloadProgress

ROOT = Path(__file__).parents[1]
CAT = "the cat sat on the mat"
SIZES = {
    "vocab_size": len(WORDS),
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 14,
    "max_position_embeddings": 16,
}
IDS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2}
BART = {"vocab_size": len(WORDS), "d_model": 12, "max_position_embeddings": 70} | {
    f"{part}_{what}": number
    for part in ("encoder", "decoder")
    for what, number in {"layers": 2, "attention_heads": 3, "ffn_dim": 14}.items()
}
KINDS = {
    "BertModel": SIZES,
    "BertForMaskedLM": SIZES,
    "BertForSequenceClassification": SIZES | {"id2label": {0: "glad", 1: "sad", 2: "\u202eodd"}},
    "LlamaForCausalLM": SIZES | {"num_key_value_heads": 1},
    "BartForConditionalGeneration": BART | {"forced_eos_token_id": None},
    "DebertaV2Model": SIZES,
}
CHANGE = ("--off", "0.1,1.2", "--temperature", "0.3")


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
    source._models.clear()


def edits(kind: str) -> Edits:
    return Edits(heads_off={(Site(kind, 0), 1), (Site(kind, 1), 2)}, temperature=0.3)


def table(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


# What is shown


@pytest.mark.parametrize("kind", KINDS)
def test_every_command_takes_a_folder(run, folder, kind):
    """The picture is that of the first site and its first head."""
    model = folder(kind)
    assert run("export", CAT, "--model", model, "-o", "head.npz")[::2] == (0, "")
    assert run("export", CAT, "--form", "heads", "--model", model, "-o", "heads.npz")[0] == 0
    assert run("export", CAT, "--form", "mask", "--model", model, "-o", "mask.npz")[0] == 0
    assert run("predict", CAT, "--show", "tokens", "--model", model)[0] == 0

    record = api.analyze(CAT, model)
    assert np.array_equal(np.load("head.npz")["weights"], record.steps[0].weights(0).numpy())
    assert len(np.load("heads.npz")["weights"]) == 3
    decodes = "decoder" in {site.kind for site in record.sites}
    assert np.load("mask.npz")["may_attend"].all() != decodes


def test_the_mask_of_an_encoder_foretells_nothing(run, folder):
    """Its rows have no next word: it predicts none."""
    run("export", CAT, "--form", "mask", "--model", folder("BertModel"), "-o", "mask.npz")

    assert "predicted_tokens" not in np.load("mask.npz")


def test_a_map_is_looked_at_in_other_ways(run, folder):
    """Without special tokens, and of a pair of texts what one sees of the other."""
    model, pair = folder("BertModel"), "the cat ||| a dog ran"
    run("export", pair, "--model", model, "--set", "view=renormalize.ab", "-o", "head.npz", "-o", "head.svg")

    record = api.analyze(pair, model)
    seen = see(record, record.sites[0], view=View(special="renormalize", pair="A to B"))
    drawn = np.load("head.npz")
    assert drawn["query_tokens"].tolist() == ["the", "cat"]
    assert drawn["key_tokens"].tolist() == ["a", "dog", "ran"]
    assert np.array_equal(drawn["weights"], seen.cells([0])[0].weights)
    assert "special tokens are hidden" in Path("head.svg").read_text("utf-8")
    assert run("export", pair, "--form", "heads", "--model", model, "--set", "view=words.ba", "-o", "heads.npz")[0] == 0
    assert np.load("heads.npz")["weights"].shape == (3, 4, 4)  # each with a special token or two


# What a model says


def test_how_alike_sentences_are_and_how_far_they_moved(run, folder):
    """Of a model that gives vectors alone."""
    model, texts = folder("BertModel"), ["the cat sat", "a dog ran on", "it was tired"]
    before, after = api.analyze(texts, model), api.analyze(texts, model, edits("encoder"))
    old, new, moved = analysis.similarity(before), analysis.similarity(after), analysis.shift(before, after)
    _, alone, _ = run("predict", "\n".join(texts), "--lines", "--model", model)
    _, both, _ = run("predict", "\n".join(texts), "--lines", "--model", model, *CHANGE)
    _, one, _ = run("predict", texts[0], "--model", model, *CHANGE)
    _, listed, _ = run("predict", "\n".join(texts), "--lines", "--model", model, *CHANGE, "--json")

    assert moved.min() > 1e-3
    assert table(alone)[1] == ["1,", "2", f"{old[0, 1]:.4f}"]
    assert table(both)[2] == ["1,", "3", f"{old[0, 2]:.4f}", f"{new[0, 2]:.4f}"]
    assert [row[1] for row in table(both)[-3:]] == [f"{far:.4f}" for far in moved]
    assert table(one) == [["sentence", "moved"], ["1", f"{moved[0]:.4f}"]]
    said = json.loads(listed)[2]
    assert said["moved"] == pytest.approx(moved[2].item(), rel=1e-3)
    assert said["similarity"] == pytest.approx(new[2].tolist(), abs=1e-5)


def test_the_words_for_each_blank(run, folder):
    """Before and after, five of each; a sentence without a blank says so."""
    model, texts = folder("BertForMaskedLM"), "the [MASK] sat on the [MASK]\na dog ran"
    after = api.analyze(texts.splitlines(), model, edits("encoder"))
    _, out, _ = run("predict", texts, "--lines", "--model", model, *CHANGE)
    _, listed, _ = run("predict", texts, "--lines", "--model", model, "--json")

    first, second = out.split("\n\n")
    assert table(first)[0] == ["position", "word", "before", "after"]
    chances = {word: f"{chance:.3f}" for word, chance in after.prediction.most_probable(6, 5)}
    assert chances.items() <= {row[1]: row[3] for row in table(first)[1:] if row[0] == "6"}.items()
    assert second == "(no blank)\n"
    predicted = [sentence["says"] for sentence in json.loads(listed)]
    assert {row["position"] for row in predicted[0]} == {2, 6}
    assert predicted[1] == []


def test_the_labels_and_how_probable_they_are(run, folder):
    """A name cannot turn the terminal around."""
    model = folder("BertForSequenceClassification")
    before, after = (api.analyze(CAT, model, edit).labels[1][0].softmax(-1) for edit in (Edits(), edits("encoder")))
    _, out, _ = run("predict", CAT, "--model", model, *CHANGE)
    _, listed, _ = run("predict", CAT, "--model", model, "--json")

    assert not torch.allclose(before, after, atol=1e-3)
    found = {row[0]: row[1:] for row in table(out)[1:]}
    assert found["glad"] == [f"{before[0]:.3f}", f"{after[0]:.3f}"]
    assert "\u202e" not in out
    assert {one["label"] for one in json.loads(listed)[0]["says"]} == {"glad", "sad", "\u202eodd"}


def test_a_decoder_and_an_encoder_decoder_say_what_they_do(run, folder):
    """The next word; another text."""
    llama, bart = folder("LlamaForCausalLM"), folder("BartForConditionalGeneration")
    chances = api.analyze(CAT, llama).prediction.most_probable(7, 5)
    written = api.analyze(CAT, bart).prediction.written[0]

    assert table(run("predict", CAT, "--model", llama)[1])[1] == [chances[0][0], f"{chances[0][1]:.3f}"]
    assert run("predict", CAT, "--model", bart)[1].split() == [*written.split(), *"(cut after 63 tokens)".split()]


@pytest.mark.parametrize(
    ("kind", "text", "column"),
    [
        ("BertForMaskedLM", "the [MASK] sat", "probability_before"),
        ("BertForMaskedLM", "the [MASK] [MASK]", "word"),
        ("BertForSequenceClassification", CAT, "probability_before"),
        ("LlamaForCausalLM", CAT, "probability_before"),
    ],
)
def test_what_a_model_says_can_be_drawn(run, folder, kind, text, column):
    status, _, err = run("predict", text, "--model", folder(kind), *CHANGE, "-o", "says.svg", "-o", "says.csv")

    assert (status, err) == (0, "")
    assert Path("says.svg").stat().st_size > 1000
    assert column in next(csv.reader(Path("says.csv").read_text("utf-8-sig").splitlines()))


def test_sentence_embeddings_have_no_picture(run, folder):
    status, _, err = run("predict", CAT, "--model", folder("BertModel"), *CHANGE, "-o", "says.svg")

    assert (status, err.count("\n")) == (2, 1)
    assert "gives sentence embeddings, of which there is no picture; leave out -o." in err
    assert not Path("says.svg").exists()


# Models


def test_a_model_says_of_itself_what_it_is(run, folder):
    """Sizes, numbers, limits, and what can be changed."""
    _, out, _ = run("models", folder("BertForSequenceClassification"))

    parameters = sum(one.numel() for one in api.load(folder("BertForSequenceClassification")).loaded.model.parameters())
    for part in (
        "BertForSequenceClassification (from a folder)\n",
        "what it does: classifies\n",
        "float32 on cpu",
        "16 tokens",
        "3: glad, sad, ",
        "masks, heads, scale, temperature",
        f"parameters: {parameters:,}\n",
        "encoder layers: 2\n",
        "heads per layer: 3\n",
        "files on this machine",
    ):
        assert part in re.sub(" +", " ", out)
    assert "\u202e" not in out


def test_a_finding_about_a_model_stands_on_stderr(run, tmp_path):
    """Whatever is asked of the model; stdout holds the answer alone."""
    zoo.save_unread(tmp_path)
    status, out, err = run("predict", "A cat", "--json", "--model", str(tmp_path))

    assert status == 0
    assert "unread" not in out
    assert "attnviz: The model leaves 8 weights of its files unread: model.layers.0.self_attn.k_proj.bias, " in err


def test_a_read_only_model_says_why(run, folder, monkeypatch):
    """Its weights and vectors can be had; a change is refused and nothing is drawn."""
    monkeypatch.setattr(trial, "_captured", lambda loaded: 1 / 0)
    source._models.clear()
    monkeypatch.setattr(trial, "_trials", {})
    model, why = folder("DebertaV2Model"), "computes attention in its own code"
    _, out, _ = run("models", model)

    assert f"read-only: DebertaV2Model {why}" in out
    assert run("predict", f"{CAT}\nit ran", "--lines", "--model", model)[0] == 0
    for command in ("export", "predict"):
        status, _, err = run(command, CAT, "--model", model, "--off", "0.1", *(["-o", "x.svg"] * (command != "says")))
        assert (status, why in err) == (2, True)
    assert not Path("x.svg").exists()


def test_a_hybrid_model_says_what_its_other_layers_are(run, tmp_path):
    """Beside what is shown of it."""
    layers = {"num_hidden_layers": 4, "layer_types": ["linear_attention"] * 3 + ["full_attention"]}
    zoo.save("qwen3_next", "Qwen3NextForCausalLM", tmp_path, **layers)
    _, out, _ = run("models", str(tmp_path))

    assert "layers 0 to 2 are linear attention (gated delta rule), not shown." in out


def test_a_server_names_the_models_that_it_lets_in(run, folder, monkeypatch):
    """And takes no other, no folder either."""
    monkeypatch.setenv("ATTNVIZ_MODELS", "gpt2, all-MiniLM-L6-v2")

    assert run("models")[1].splitlines()[-1] == "Also, of Hugging Face: gpt2, all-MiniLM-L6-v2."
    status, _, err = run("export", CAT, "--model", "./folder")
    assert status == 2
    assert "The models of this server are: gpt2, all-MiniLM-L6-v2." in err


@pytest.mark.parametrize(
    ("kind", "arguments", "reason"),
    [
        ("BertModel", ["predict", CAT], "give several, one on each line with --lines, or a change"),
        ("BertForMaskedLM", ["predict", CAT], "fills in [MASK]; write that in the place of a word"),
        ("BertModel", ["export", "the cat ||| sat\nthe cat", "--lines"], "make all of them the same"),
        ("BertModel", ["export", CAT, "--set", "view=ac"], "--set view: 'ac' cannot be read"),
        ("BertModel", ["export", CAT, "--step", "3"], "has no setting 'step'"),
        ("BertModel", ["export", CAT, "--head", "3"], "There is no head 3; there are 3, counted from 0."),
        ("BertModel", ["export", CAT, "--off", "d0.1"], "has no decoder layer 0. It has: encoder layer 0"),
        ("BertModel", ["export", "the " * 20], "Line 1 has 22 tokens;"),
    ],
)
def test_a_mistake_is_answered_in_one_line(run, folder, tmp_path, kind, arguments, reason):
    """Also nothing of what the libraries would say to the terminal."""
    status, out, err = run(*arguments, "--model", folder(kind))

    assert (status, out) == (2, "")
    assert reason in err
    assert err.count("attnviz: ") == 1
    assert not list(tmp_path.iterdir())


def test_without_transformers_one_sentence_says_what_to_install(run, folder, monkeypatch):
    from attnviz.sources.huggingface import faults

    source._models.clear()
    monkeypatch.setattr(faults, "find_spec", lambda name: None)
    status, _, err = run("export", CAT, "--model", folder("BertModel"))

    assert status == 2
    assert "need transformers, which is not installed here: pip install 'transformers>=5.23,<6'" in err
    assert err.count("attnviz: ") == 1


# Downloads


class Terminal:
    """A file that is a terminal, or not."""

    def __init__(self, looks: bool):
        self.looks, self.text = looks, ""

    def isatty(self) -> bool:
        return self.looks

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


@pytest.mark.parametrize("looks", [True, False])
def test_a_download_says_how_much_it_is_before_how_far(looks):
    """A bar is for people only; a log gets one line."""
    file = Terminal(looks)
    with terminal.Download("gpt2", file) as told:
        told(DownloadProgress("fetching", 0, 8_000_000))
        told(DownloadProgress("fetching", 2_000_000, 8_000_000))

    assert file.text.startswith("attnviz: 'gpt2' is fetched: 8.0 MB.\n")
    assert ("[#######.......................]  25%  2.0 MB" in file.text) == looks
    assert file.text.endswith("\n")
    assert file.text.count("\n") == 1 + looks


def test_an_interrupt_that_a_library_swallows_ends_the_download():
    """At the next sign of progress; after the download Ctrl+C does what it did before."""
    before = signal.getsignal(signal.SIGINT)
    with terminal.Download("gpt2", Terminal(False)) as told:
        told(DownloadProgress("fetching", 0, 8_000_000))
        with suppress(BaseException):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            told(DownloadProgress("fetching", 1, 8_000_000))

    assert signal.getsignal(signal.SIGINT) == before


def fetching(hub: str, cache: Path, *arguments: str) -> subprocess.Popen:
    """A command in a process of its own, that may ask the hub."""
    online = {"HF_ENDPOINT": hub, "HF_HOME": str(cache), "HF_HUB_OFFLINE": "0", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "attnviz", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=os.environ | online, cwd=cache, text=True, **pipes)


def test_a_model_is_fetched_and_then_shown(run, tmp_path, tmp_path_factory, monkeypatch):
    """With its size on stderr and its commit on its card."""
    with fake_hub.running() as (hub, address):
        fake_hub.connect(monkeypatch, address, tmp_path / "cache")
        hub.add("someone/tiny", fake_hub.write(tmp_path_factory.mktemp("at") / "hub", build("GPT2")))
        _, out, err = run("models", "someone/tiny")
    source._models.clear()

    assert err.startswith("attnviz: 'someone/tiny' is fetched: ")
    assert err.count("attnviz: ") == 1
    assert fake_hub.COMMIT in out


def test_a_download_that_is_canceled_ends_in_two_lines(tmp_path, tmp_path_factory):
    """Status 130 and two lines, no traceback."""
    with fake_hub.running() as (hub, address):
        hub.add("someone/tiny", fake_hub.write(tmp_path_factory.mktemp("at") / "hub", build("GPT2")))
        hub.fault = "hang in a file"
        process = fetching(address, tmp_path, "export", "w5", "--model", "someone/tiny", "-o", "head.svg")
        ends = time.monotonic() + 60
        while not list(tmp_path.rglob("*.incomplete")) and time.monotonic() < ends:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)

    assert (process.returncode, out) == (130, ""), err
    first, second = err.splitlines()
    assert "is fetched: " in first
    assert second == "attnviz: Canceled. Files that are whole are kept."
    assert not [*tmp_path.rglob("head.svg")]


def test_who_cancels_by_the_report_is_not_told_about_other_models(monkeypatch):
    """It is no mistake in the name."""
    from attnviz.sources.huggingface.hub import Canceled

    def load(name, report):
        raise Canceled("The download was canceled.")

    monkeypatch.setattr(source.loading, "load", load)
    with pytest.raises(InputError, match=r"^The download was canceled\.$"):
        api.load("someone/tiny", report=lambda progress: False)
