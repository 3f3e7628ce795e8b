"""Folders that people have: what each holds is said, with a way out that works; odd ones are opened."""

import pytest
import torch
import transformers
from fake_hub import write
from families import build
from safetensors.torch import load_file, save_file

import attnviz
from attnviz import cases, figures
from attnviz.core.errors import AttnvizError, InputError
from attnviz.sources.huggingface.source import HuggingFace

pytestmark = pytest.mark.usefixtures("nothing_is_kept")
TEXT = "the cat sat on the mat"


def refusal(name) -> str:
    with pytest.raises(AttnvizError) as caught:
        attnviz.load(str(name))
    assert "\n" not in str(caught.value)
    assert "The models that ship with attnviz" not in str(caught.value)
    return str(caught.value)


def touched(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"x")
    return folder


def test_an_adapter_is_to_be_merged(tmp_path):
    """By the line of PEFT."""
    folder = touched(tmp_path / "lora", "adapter_model.safetensors", "adapter_config.json", "README.md")
    merge = f'AutoPeftModelForCausalLM.from_pretrained("{folder}").merge_and_unload()'

    assert "holds an adapter (LoRA)" in refusal(folder)
    (folder / "config.json").write_text('{"model_type": "llama"}')
    assert merge in refusal(folder)


def test_gguf_is_to_be_converted(tmp_path):
    """By the line that is said, whether the folder or the file is given."""
    folder = touched(tmp_path / "gguf", "tiny-Q4_0.gguf")
    for path in (folder, folder / "tiny-Q4_0.gguf"):
        assert "holds weights as GGUF" in (sentence := refusal(path))
        assert f'from_pretrained("{folder}", gguf_file="tiny-Q4_0.gguf")' in sentence


@pytest.mark.parametrize("name", ["model.pt", "best.ckpt", "pytorch_model.bin", "weights.safetensors"])
def test_a_state_dict_is_to_be_loaded_into_its_model(tmp_path, name):
    """There is nothing that says which model that is."""
    folder = touched(tmp_path / "weights", name)
    for path in (folder, folder / name):
        assert f"holds weights ({name}) without config.json, such as a state_dict." in (sentence := refusal(path))
        assert "attnviz.capture(model)" in sentence


def test_weights_as_pickle_are_converted_by_the_line_that_is_said(tmp_path, monkeypatch):
    """It is run here, and the folder that it writes is opened."""
    folder = write(tmp_path / "old")
    weights = folder / "model.safetensors"
    torch.save(load_file(weights), folder / "pytorch_model.bin")
    weights.unlink()
    touched(folder, "training_args.bin")

    said = refusal(folder)
    assert "holds its weights as pickle (pytorch_model.bin), which can run code" in said
    line = f'transformers.GPT2LMHeadModel.from_pretrained("{folder}").save_pretrained("converted")'
    assert line in said
    monkeypatch.chdir(tmp_path)
    exec(line, {"transformers": transformers})
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained("converted")
    assert attnviz.analyze(TEXT, "converted").steps


def test_a_checkpoint_inside_is_named(tmp_path, monkeypatch):
    """As the folder to give instead, also by the bare name of a folder in this place."""
    write(tmp_path / "run" / "checkpoint-500")
    monkeypatch.chdir(tmp_path)

    assert refusal(tmp_path / "run").endswith("such as " + str(tmp_path / "run" / "checkpoint-500") + ".")
    assert "has no config.json, so" in refusal("run")


def test_a_folder_that_is_not_there_is_said_without_the_models_that_ship(tmp_path):
    assert "is not there" in refusal(tmp_path / "none")
    with pytest.raises(InputError, match="The models that ship with attnviz are"):
        attnviz.load("no name")


@pytest.mark.parametrize(
    ("prefix", "family"),
    [("module.", "Bert"), ("_orig_mod.", "T5"), ("module._orig_mod.", "GPT2"), ("model.net.", "Llama")],
)
def test_a_prefix_that_all_weights_share_is_left_out(tmp_path, prefix, family):
    """As DataParallel, a compiled model and Lightning write it; it is said, and the numbers are the same."""
    plain = write(tmp_path / "plain", build(family))
    other = write(tmp_path / "other", build(family))
    weights = {prefix + name: tensor for name, tensor in load_file(other / "model.safetensors").items()}
    save_file(weights, other / "model.safetensors", {"format": "pt"})

    model = HuggingFace(str(other))
    one, two = (attnviz.analyze(TEXT, str(folder)) for folder in (plain, other))
    assert torch.equal(one.output, two.output)
    assert model.facts.notes == (f"weights named without their prefix “{prefix}”",)
    assert any(prefix in value for _, value in model.described())
    assert HuggingFace(str(plain)).facts.notes == ()


@pytest.mark.parametrize(
    ("path", "title"),
    [("bert", "bert"), ("run-7/checkpoint-500", "checkpoint-500 (run-7)"), ("run-7/best", "best")],
)
def test_a_folder_is_called_by_its_own_name(tmp_path, path, title):
    """In figures, files and tables no path of this machine stands."""
    record = attnviz.analyze(TEXT, str(write(tmp_path / path)))

    assert record.source == title
    figure = figures.head(record, record.sites[0], 0)
    assert title in figure.title
    assert tmp_path.name not in f"{figure.title} {figure.description} {figure.name} {figure.chart.to_dict()}"


def test_a_folder_that_moved_is_given_to_verify(tmp_path, monkeypatch):
    """A file keeps its name, not its path; what it says is the way that works."""
    folder, file = write(tmp_path / "first" / "tiny"), tmp_path / "case.attn"
    cases.save(TEXT, file, str(folder))
    assert tmp_path.name.encode() not in file.read_bytes()
    folder.rename(tmp_path / "second")

    with pytest.raises(InputError, match=r"in the folder './tiny', which is not here\. Give its folder"):
        cases.verify(file)
    assert cases.verify(file, attnviz.load(str(tmp_path / "second"))).same
    monkeypatch.chdir(tmp_path)
    (tmp_path / "second").rename(tmp_path / "tiny")
    assert cases.verify(file).same
