"""A run that was saved comes out the same again, or it is said what differs and why."""

import json
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file

import attnviz
from attnviz import ALiBi, Edits, Site, Subsequent, Tap, Window, api, cases, cli, files
from attnviz.cli import SAVED, main
from attnviz.core.errors import InputError
from attnviz.core.scoring import Scoring
from attnviz.models import trained
from attnviz.sources.saved import Saved

TEXT = "the black cat sleeps"
OFF = Edits(mask=Subsequent(), heads_off={(Site("decoder", 0), 1)}, temperature=0.5)


@pytest.fixture(autouse=True)
def shipped(tmp_path, monkeypatch):
    """The trained models, tiny, in a folder of this test's own."""
    yield tiny.install(tmp_path / "assets", monkeypatch)
    tiny.forget()


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize(
    "source",
    [("story", {}), ("story", {"step": 20}), ("translator", {}), ("scratch", {"seed": 3, "num_heads": 2})],
    ids=str,
)
def test_a_case_comes_out_the_same(source, precision, tmp_path):
    """With its settings and its edits, on the machine that saved it."""
    source = api.load(source[0], **source[1])
    edits = OFF if source.sites[0].kind == "decoder" else Edits(temperature=0.5)
    path = cases.save([TEXT, "a dog"], tmp_path / "case.attn", source, edits, precision=precision)

    verified = cases.verify(path)

    assert verified.same
    assert verified.lines[0].startswith("The same")
    assert "bit for bit" in verified.lines[0] or precision == "float16"


def test_one_changed_weight_is_found_and_named(tmp_path):
    """One number of the last layer's projection of values: that vector differs, and the checksums say why."""
    path = cases.save(TEXT, tmp_path / "case.attn", "story")
    place = trained.weights_path("story", tiny.STEPS[-1])
    weights = load_file(place)
    name = next(one for one in sorted(weights) if "1" in one and "v" in one and weights[one].dim() == 2)
    weights[name][0, 0] += 1
    with open(place, "rb") as file:
        content = file.read()
    length = int.from_bytes(content[:8], "little")
    save_file(weights, place, json.loads(content[8 : 8 + length]).get("__metadata__"))
    tiny.forget()

    verified = cases.verify(path)

    assert not verified.same
    assert any("differ" in line for line in verified.lines)
    assert any("The weights of story are not those of the file" in line for line in verified.lines)


def test_other_versions_are_named(tmp_path, monkeypatch):
    path = cases.save(TEXT, tmp_path / "case.attn", "story")
    monkeypatch.setattr(attnviz, "__version__", "99.0")

    assert any("made by attnviz" in line and "99.0" in line for line in cases.verify(path).lines)


def test_a_record_without_its_source_is_no_case(tmp_path):
    path = attnviz.save(attnviz.analyze("a b", "scratch"), tmp_path / "a.attn")

    with pytest.raises(InputError, match="does not name a model"):
        cases.verify(path)


@pytest.mark.parametrize("settings", [{"evil": 1}, {"step": "x"}, {"step": [1]}, {"step": 10**9}])
def test_settings_of_anybody_bring_one_sentence(settings, tmp_path):
    """A file may ask for a source that is not, or with settings that it has not."""
    record = attnviz.analyze(TEXT, "story")
    path = attnviz.save(record, tmp_path / "a.attn", settings={"name": "story", "settings": settings})

    with pytest.raises(attnviz.AttnvizError):
        cases.verify(path)


def test_a_model_of_ones_own_is_verified_by_itself_and_never_looked_for_elsewhere(tmp_path):
    """Its name means nothing to another process: there may be a stranger's model under it."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = torch.nn.Sequential(torch.nn.Embedding(9, 8), layer).eval()
    source = attnviz.wrap(model, lambda text: list(range(len(text.split()))), "a b c")
    path = cases.save("a b c", tmp_path / "own.attn", source)

    assert cases.verify(path, source).same
    with pytest.raises(InputError, match="does not name a model"):
        cases.verify(path)
    with torch.no_grad():
        layer.linear1.weight[0, 0] += 1
    assert any("weights of Sequential are not those" in line for line in cases.verify(path, source.current()).lines)


def test_the_shell_knows_the_endings_of_files_without_torch():
    assert SAVED == files.READ


# In the shell


def test_the_shell_saves_and_verifies(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    assert main(["save", TEXT, "--model", "story", "--off", "0.1", "-o", "case.attn"]) == 0
    assert capsys.readouterr().out == "case.attn\n"
    assert files.read("case.attn").edits == Edits(heads_off={(Site("decoder", 0), 1)})
    assert main(["open", "case.attn", "--verify"]) == 0
    assert capsys.readouterr().out.startswith("The same")
    assert main(["save", TEXT, "--model", "story"]) == 0
    assert capsys.readouterr().out == "story-the-black-cat-sleeps.attn\n"
    assert main(["open", "none.attn", "--verify"]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_saved_run_is_a_model_of_the_shell(tmp_path, monkeypatch, capsys):
    """Its own texts alone; a change acts on its attention, of which weights alone are not enough."""
    monkeypatch.chdir(tmp_path)
    main(["save", TEXT, "--model", "story", "-o", "case.attn"])
    capsys.readouterr()

    assert main(["export", TEXT, "--model", "case.attn", "-o", "a.csv"]) == 0
    assert main(["export", TEXT, "--model", "story", "--layer", "0", "--head", "0", "-o", "b.csv"]) == 0
    assert Path("a.csv").read_text("utf-8") == Path("b.csv").read_text("utf-8")
    assert main(["export", "a dog", "--model", "case.attn"]) == 2
    assert "holds one run" in capsys.readouterr().err
    assert main(["export", TEXT, "--model", "case.attn", "--mask", "window(1)", "-o", "c.csv"]) == 0
    assert Path("c.csv").read_text("utf-8") != Path("a.csv").read_text("utf-8")
    np.save("w.npy", np.full((2, 3, 3), 1 / 3))
    assert main(["export", "0 1 2", "--model", "w.npy", "--temperature", "2"]) == 2
    assert "holds weights alone" in capsys.readouterr().err
    assert main(["export", TEXT, "--model", "case.attn", "--step", "1"]) == 2
    assert "A saved run has no setting 'step'" in capsys.readouterr().err


def test_a_saved_run_stands_where_a_text_stands(tmp_path, monkeypatch, capsys):
    """It is its own model, unless another one is given; a name without a file is a text."""
    monkeypatch.chdir(tmp_path)
    main(["save", f"{TEXT}\na dog", "--lines", "--model", "story", "--off", "0.1", "-o", "case.attn"])

    assert main(["explore", "case.attn", "--sentence", "2", "-o", "case.html"]) == 0
    assert Path("case.html").read_text("utf-8") == attnviz.explore(files.read("case.attn"), sentence=1)
    capsys.readouterr()
    for text, model in (("case.attn", "scratch"), ("none.attn", None)):
        assert main(["predict", text, "--show", "tokens", "--json", *(("--model", model) if model else ())]) == 0
        assert json.loads(capsys.readouterr().out)["texts"] == [text]
    assert main(["export", "case.attn", "--step", "1"]) == 2
    assert "A saved run has no setting 'step'" in capsys.readouterr().err


def test_what_a_case_names_is_loaded_with_a_word_about_it_and_runs_no_code(tmp_path, monkeypatch):
    """As every command loads a model; but a file of anyone may not name code, or another file."""
    monkeypatch.chdir(tmp_path)
    record, asked = attnviz.analyze(TEXT, "story"), []
    monkeypatch.setattr(api, "load", lambda name, **how: asked.append((name, how)) or 1 / 0)
    for name in ("gpt2", "evil.py:build", "other.attn"):
        attnviz.save(record, "a.attn", settings={"name": name, "settings": {}})
        with pytest.raises(ZeroDivisionError):
            main(["open", "a.attn", "--verify"])

    assert [name for name, _ in asked] == ["gpt2", "evil.py:build", "other.attn"]
    assert all(callable(how["report"]) for _, how in asked)


def test_a_record_is_a_source_that_gives_it_back():
    record = attnviz.analyze([TEXT, "a dog"], "translator")
    source = Saved("case.attn", record)

    assert source.run(source.tokenize([TEXT, "a dog"])) is record
    assert set(source.sites) == set(record.sites)
    assert source.examples == (f"{TEXT}\na dog",)


@pytest.mark.parametrize("name", ["scratch", "translator"])
def test_edits_act_on_each_attention_of_a_file_as_they_did_in_its_model(name):
    """On the first layer of all, which reads what no edit reached; then the model goes on, and the file does not."""
    record, edits = attnviz.analyze(TEXT, name), Edits(Subsequent(), {(Site("encoder", 0), 1)}, temperature=0.5)
    source = Saved("case.attn", files.read(files.saved(record)))
    ours, theirs = (one.run(record.sentences, edits) for one in (source, api.load(name)))

    for kept, made in zip(ours.steps, record.steps, strict=True):
        assert torch.equal(kept.query, made.query)
        assert (kept.scoring.temperature, kept.heads_off) == (0.5, edits.off(kept.site))
    first = record.sites[0]
    for head in range(record.step(first).num_heads):
        assert torch.equal(ours.step(first).weights(head), theirs.step(first).weights(head))
        assert torch.equal(ours.step(first).output(head), theirs.step(first).output(head))
    assert ours.prediction is ours.labels is ours.vectors is None


def test_a_sink_of_a_file_stays_one_under_edits():
    """A mask of tokens leaves it open, and the rest of the softmax is as it was."""
    tap, (q, k, v) = Tap(), torch.randn(3, 1, 2, 5, 4)
    site = Site("decoder", 0)
    tap.attend(q, k, v, site=site, mask=Subsequent(), scoring=Scoring(bias=ALiBi()), sinks=torch.randn(2))
    again = Tap()
    again.repeat(tap.steps[0])

    assert torch.equal(again.steps[0].weights(1), tap.steps[0].weights(1))
    both = Tap(Edits(Window(before=1)))
    both.repeat(tap.steps[0])
    weights = both.steps[0].weights(1)
    assert weights[3, :2].eq(0).all()
    assert (weights[3, 4:].sum() > 0) == (weights[3, 5] > 0)
    torch.testing.assert_close(weights.sum(-1), torch.ones(5))


def test_the_folder_of_a_model_opens_as_that_model(tmp_path, monkeypatch):
    """`attnviz app checkpoint/` is the link that the app writes for it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my model").mkdir()
    (tmp_path / "my model" / "config.json").write_text("{}")
    (tmp_path / "masks").mkdir()

    assert cli._link("my model") == f"?model={quote(str(tmp_path / 'my model'), safe='')}"
    assert cli._link("masks") == "masks"


def test_a_file_opens_where_it_was_saved(tmp_path, monkeypatch):
    """As the shell opens the app; what is no link is left out."""
    monkeypatch.setattr(api, "OFFERED", {})
    monkeypatch.chdir(tmp_path)
    record = attnviz.analyze(TEXT, "story")
    state = {"model": ["evil"], "layer": ["d1"], "head": ["1"], "mask": ["causal"], "site": ["d0"]}
    attnviz.save(record, "a.attn", settings={"state": state})
    attnviz.save(record, "b.attn", settings={"state": {"layer": 7}})

    assert cli._link("a.attn") == "?model=a.attn&layer=d1&head=1"
    assert cli._link("b.attn") == "?model=b.attn"
    assert api.load("a.attn").record.source == "story"


def test_what_is_no_file_of_ours_says_what_is():
    for name, content, says in (
        ("a.docx", b"x", r"must end in \.attn, \.npz"),
        ("a.attn", b"x", "not a file that attnviz.save wrote"),
        ("a.npy", b"x", "is damaged, holds a pickle"),
    ):
        with pytest.raises(InputError, match=says):
            cases.source(name, content)
