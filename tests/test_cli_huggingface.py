"""Models of Hugging Face in the shell: tiny ones from folders, and one from a hub on this machine."""

import json
import os
import re
import signal
import subprocess
import sys
import time
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
from attnviz.cli import terminal
from attnviz.core.edits import Edits, Site
from attnviz.sources.huggingface import hub, loading
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
    """Function that writes a tiny model of a kind, with weights far from each other, and returns its folder."""

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
    loading._models.clear()


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


# What a model says


def test_how_alike_sentences_are_and_how_far_they_moved(run, folder):
    """The model gives vectors only."""
    model, texts = folder("BertModel"), ["the cat sat", "a dog ran on", "it was tired"]
    before, after = api.analyze(texts, model), api.analyze(texts, model, edits("encoder"))
    old, new, moved = analysis.similarity(before), analysis.similarity(after), analysis.shift(before, after)
    _, alone, _ = run("predict", "\n".join(texts), "--lines", "--model", model)
    _, both, _ = run("predict", "\n".join(texts), "--lines", "--model", model, *CHANGE)
    _, one, _ = run("predict", texts[0], "--model", model, *CHANGE)
    _, listed, _ = run("predict", "\n".join(texts), "--lines", "--model", model, *CHANGE, "--json")

    assert moved.min() > 1e-3
    assert table(alone)[0] == ["sentence", "like", "1", "like", "2", "like", "3"]
    assert float(table(alone)[1][2]) == pytest.approx(old[0, 1].item(), abs=1e-4)
    assert float(table(both)[1][3]) == pytest.approx(new[0, 2].item(), abs=1e-4)
    assert float(table(one)[1][1]) == pytest.approx(moved[0].item(), abs=1e-4)
    row = json.loads(listed)["rows"][2]
    assert row["moved"] == pytest.approx(moved[2].item(), rel=1e-3)
    assert row["like 2"] == pytest.approx(new[2, 1].item(), abs=1e-5)


def test_the_words_for_each_blank(run, folder):
    """Before and after, five of each; a sentence without a blank has none."""
    model, texts = folder("BertForMaskedLM"), "the [MASK] sat on the [MASK]\na dog ran"
    after = api.analyze(texts.splitlines(), model, edits("encoder"))
    _, out, _ = run("predict", texts, "--lines", "--model", model, *CHANGE)
    _, listed, _ = run("predict", texts, "--lines", "--model", model, "--json")

    chances = dict(after.prediction.most_probable(6, 5))
    found = {row[3]: float(row[4]) for row in table(out)[1:] if row[:2] == ["1", "6"]}
    assert table(out)[0] == ["sentence", "position", "token", "word", "probability", "probability_before"]
    assert found.keys() >= chances.keys()
    assert [found[word] for word in chances] == pytest.approx([*chances.values()], abs=1e-4)
    assert {(row["sentence"], row["position"]) for row in json.loads(listed)["rows"]} == {(1, 2), (1, 6)}


def test_the_labels_and_how_probable_they_are(run, folder):
    """A name cannot turn the terminal around."""
    model = folder("BertForSequenceClassification")
    before, after = (api.analyze(CAT, model, edit).labels[1][0].softmax(-1) for edit in (Edits(), edits("encoder")))
    _, out, _ = run("predict", CAT, "--model", model, *CHANGE)
    _, listed, _ = run("predict", CAT, "--model", model, "--json")

    assert not torch.allclose(before, after, atol=1e-3)
    found = {row[0]: row[1:] for row in table(out)[1:]}
    assert [*map(float, found["glad"])] == pytest.approx([after[0].item(), before[0].item()], abs=1e-4)
    assert "\u202e" not in out
    assert {row["label"] for row in json.loads(listed)["rows"]} == {"glad", "sad", "\u202eodd"}


def test_sentence_embeddings_have_no_picture(run, folder):
    status, _, err = run("predict", CAT, "--model", folder("BertModel"), *CHANGE, "-o", "says.svg")

    assert (status, err.count("\n")) == (2, 1)
    assert "makes sentence embeddings, which have no picture; leave out -o." in err
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
        "masks, heads, scale, temperature",
        f"parameters: {parameters:,}\n",
        "encoder layers: 2\n",
        "heads per layer: 3\n",
        "files on this machine",
    ):
        assert part in re.sub(" +", " ", out)


def test_a_finding_about_a_model_stands_on_stderr(run, tmp_path):
    """Whatever is asked of the model; stdout holds the answer alone."""
    zoo.save_unread(tmp_path)
    status, out, err = run("predict", "A cat", "--json", "--model", str(tmp_path))

    assert status == 0
    assert "unread" not in out
    assert "attnviz: The model leaves 8 weights of its files unread: model.layers.0.self_attn.k_proj.bias, " in err


def test_a_server_names_the_models_that_it_lets_in(run, folder, monkeypatch):
    """And takes no other, no folder either."""
    monkeypatch.setenv("ATTNVIZ_MODELS", "gpt2, all-MiniLM-L6-v2")

    assert run("models")[1].splitlines()[-1] == "Also, from Hugging Face: gpt2, all-MiniLM-L6-v2."
    status, _, err = run("export", CAT, "--model", "./folder")
    assert status == 2
    assert "The models of this server are: gpt2, all-MiniLM-L6-v2." in err


@pytest.mark.parametrize(
    ("kind", "arguments", "reason"),
    [
        ("BertModel", ["predict", CAT], "give several texts, one per line with --lines, or a change"),
        ("BertForMaskedLM", ["predict", CAT], "fills in blanks; write [MASK] in place of a word"),
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
    loading._models.clear()
    monkeypatch.setattr(hub, "find_spec", lambda name: None)
    status, _, err = run("export", CAT, "--model", folder("BertModel"))

    assert status == 2
    assert "need transformers, which is not installed here: pip install 'attnviz[huggingface]'" in err
    assert err.count("attnviz: ") == 1


# Downloads


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_download_says_how_much_it_is_before_how_far(is_terminal, capsys, monkeypatch):
    """A bar is for people only; a log gets one line."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    with terminal.download("gpt2") as report:
        report(DownloadProgress("fetching", 0, 8_000_000))
        report(DownloadProgress("fetching", 2_000_000, 8_000_000))
    err = capsys.readouterr().err

    assert err.startswith("attnviz: Downloading 'gpt2': 8.0 MB.\n")
    assert ("25%" in err) == is_terminal
    assert err.count("\n") == 1 + is_terminal


def fetching(hub: str, cache: Path, *arguments: str) -> subprocess.Popen:
    """Start a command in another process, which may use the hub."""
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
    loading._models.clear()

    assert err.startswith("attnviz: Downloading 'someone/tiny': ")
    assert err.count("attnviz: ") == 1
    assert fake_hub.COMMIT in out


def test_a_download_that_is_canceled_ends_in_two_lines(tmp_path, tmp_path_factory):
    """Status 130 and two lines, no traceback."""
    with fake_hub.running() as (hub, address):
        hub.add("someone/tiny", fake_hub.write(tmp_path_factory.mktemp("at") / "hub", build("GPT2")))
        hub.fault = "hang in a file"
        process = fetching(address, tmp_path, "export", "w5", "--model", "someone/tiny", "-o", "head.svg")
        while not list(tmp_path.rglob("*.incomplete")) and process.poll() is None:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)

    assert (process.returncode, out) == (130, ""), err
    first, second = err.splitlines()
    assert "Downloading " in first
    assert second == "attnviz: Canceled. Complete files are kept."
    assert not [*tmp_path.rglob("head.svg")]
