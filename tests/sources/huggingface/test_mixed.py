"""Pictures within a text: places of image tokens; ids, weights, masks and answers are the model's own."""

import warnings

import numpy as np
import pytest
import torch
import transformers
from mixed import FAMILIES, IMAGE, folder

import attnviz
from attnviz.core.errors import InputError
from attnviz.sources.huggingface import mixing

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")
CHANCE = np.random.RandomState(0)
PICTURE, OTHER = ((CHANCE.rand(*size, 3) * 255).astype(np.uint8) for size in ((60, 90), (90, 50)))
QUESTION = "What is this?"
OWN_SIZE = {"internvl": (64, 96), "idefics3": (64, 96), "smolvlm": (64, 96)}
OWN_SIZE |= dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_vl"), (48, 80))
"""Height and width of pictures that processors do not resize, of those whose size is not 32 x 32."""
TILED = ("internvl", "idefics3", "smolvlm")


@pytest.fixture(scope="module")
def load(load_each):
    return load_each(folder)


@pytest.fixture(scope="module")
def load_own():
    """A function that gives the model itself, as transformers loads it, with its own eager attention."""
    models = {}

    def get(source):
        if source.model not in models:
            auto = transformers.AutoModelForImageTextToText
            models[source.model] = auto.from_pretrained(source.model, attn_implementation="eager").eval()
        return models[source.model]

    return get


def read_by(source, pictures, text=QUESTION):
    """Inputs of the processor alone."""
    processor = source.facts.processor
    if processor.chat_template:
        blocks = [*({"type": "image", "image": picture} for picture in pictures), {"type": "text", "text": text}]
        template = transformers.ProcessorMixin.apply_chat_template  # SmolVLM's own asks for a processor of videos
        options = {"tokenize": True, "return_dict": True, "add_generation_prompt": True, "return_tensors": "pt"}
        return template(processor, [{"role": "user", "content": blocks}], **options)
    prompt = processor.image_token * len(pictures) + text
    read = processor(images=[list(pictures)], text=[prompt], return_tensors="pt")
    read.pop("labels", None)
    return read


def embedded(model, read):
    """Return the embedding that the language model reads at each image token, (tokens, d)."""
    embeddings = []

    def remember(module, args, settings):
        embeddings.append(settings["inputs_embeds"][0].clone())

    language = model.model.text_model if hasattr(model.model, "text_model") else model.model.language_model
    hook = language.register_forward_pre_hook(remember, with_kwargs=True)
    with torch.no_grad():
        model(**read)
    hook.remove()
    return embeddings[0][read["input_ids"][0] == IMAGE]


def blinded(model):
    """The model with a vision tower in which no patch reads another: its attention gives zero."""
    tower = next(part for name, part in model.model.named_children() if "vis" in name)
    for name, module in tower.named_modules():
        if ("attn" in name and name.endswith(("out_proj", "o_proj", "attn.proj"))) or name.endswith("projection_layer"):
            for parameter in module.parameters():
                parameter.data.zero_()
    return model


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_are_those_of_the_processor(load, family):
    source = load(family)
    for pictures in ([PICTURE], [PICTURE, OTHER]):
        (sentence,) = source.sentences(attnviz.picture(pictures, QUESTION))

        assert [token.id for token in sentence.tokens] == read_by(source, pictures)["input_ids"][0].tolist()
        assert len(sentence.pictures) == len(pictures)
        numbers = [token.box.picture for token in sentence.tokens if token.box]
        assert numbers == sorted(numbers)
        assert {*numbers} == {*range(len(pictures))}
        words = "".join(token.text for token in sentence.tokens if not token.special and token.box is None)
        assert words.replace(" ", "").strip("\n") == QUESTION.replace(" ", "")
        typed = [token for token in sentence.tokens if token.end > token.start and token.id != IMAGE]
        assert all(sentence.text[token.start : token.end] == token.text for token in typed)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_bright_cell_reaches_its_own_token_alone(load, family):
    """A picture in its own size goes through the processor, the tower without attention, and the merger of patches."""
    source = load(family)
    model = blinded(
        transformers.AutoModelForImageTextToText.from_pretrained(source.model, attn_implementation="eager").eval()
    )
    height, width = OWN_SIZE.get(family, (32, 32))
    dark = np.zeros((height, width, 3), np.uint8)
    (sentence,) = source.sentences(attnviz.picture(dark, QUESTION))
    tokens = [token for token in sentence.tokens if token.id == IMAGE]
    before, covered = embedded(model, read_by(source, [dark])), np.zeros((height, width), int)
    last = f"tile{len(tokens) // 4 - 1}·"
    for number, token in enumerate(tokens):
        if family in TILED and token.text.startswith(last):  # of the small picture beside the tiles
            continue
        box = token.box
        top, bottom, left, right = (
            round(edge * side)
            for edge, side in ((box.top, height), (box.bottom, height), (box.left, width), (box.right, width))
        )
        bright = dark.copy()
        bright[top:bottom, left:right] = 255
        changed = (embedded(model, read_by(source, [bright])) - before).abs().amax(-1) > 1e-5
        covered[top:bottom, left:right] += 1

        reached = [i for i, is_changed in enumerate(changed.tolist()) if is_changed]
        small = [i for i in reached if family in TILED and tokens[i].text.startswith(last)]
        assert [i for i in reached if i not in small] == [number]
        if family in TILED:
            assert small
        for place in (tokens[i].box for i in small):  # which is resized: a cell may reach those beside it
            x, y = (place.right - place.left) / 2, (place.bottom - place.top) / 2
            assert max(box.left, place.left - x) < min(box.right, place.right + x)
            assert max(box.top, place.top - y) < min(box.bottom, place.bottom + y)
    assert (covered == 1).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_places_of_any_size_cover_the_picture(load, family):
    """A resized and padded picture has cells at all of its edges, or the middle where a processor cuts them off."""
    (sentence,) = load(family).sentences(attnviz.picture(OTHER, QUESTION))
    boxes = [token.box for token in sentence.tokens if token.box]

    cut = 0.225 if family == "llava" else 0  # it takes 32 x 32 of 58 x 32
    assert min(box.left for box in boxes) == pytest.approx(0, abs=0.02)
    assert max(box.right for box in boxes) == pytest.approx(1, abs=0.02)
    assert min(box.top for box in boxes) == pytest.approx(cut, abs=0.02)
    assert max(box.bottom for box in boxes) == pytest.approx(1 - cut, abs=0.02)


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_and_logits_are_those_of_the_model(load, load_own, family):
    """Eager attention, as transformers itself returns it, in every layer and head, with one picture and with two."""
    source = load(family)
    for pictures in ([PICTURE], [OTHER, PICTURE]):
        record = attnviz.analyze(attnviz.picture(pictures, QUESTION), source)
        with torch.no_grad():
            output = load_own(source)(**read_by(source, pictures), output_attentions=True)

        assert len(record.steps) == len(output.attentions) == 2
        for step, expected in zip(record.steps, output.attentions, strict=True):
            weights = torch.stack([step.weights(head) for head in range(step.num_heads)])
            assert torch.allclose(weights, expected[0], atol=1e-5)
        assert torch.allclose(record.prediction.logits, output.logits, atol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_greedy_answer_is_that_of_the_model(load, load_own, family):
    source = load(family)
    generated = attnviz.generate(attnviz.picture(PICTURE, QUESTION), source, 8)
    read = read_by(source, [PICTURE])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = load_own(source).generate(**read, do_sample=False, max_new_tokens=8, pad_token_id=0)
    ids = [id for id in answer[0, read["input_ids"].shape[1] :].tolist() if id not in source.ends]

    assert list(generated.ids) == ids
    assert generated.sentence.pictures == attnviz.picture(PICTURE).pictures[0]
    assert sum(token.box is not None for token in generated.sentence.tokens) > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_texts_of_a_batch_are_read_as_each_alone(load, family):
    source = load(family)
    texts = [attnviz.picture(PICTURE, QUESTION), attnviz.picture(OTHER, "And this other thing?")]
    both = attnviz.analyze(texts, source)

    for number, text in enumerate(texts):
        alone = attnviz.analyze(text, source)
        n = alone.sentences[0].length
        assert both.sentences[number].tokens[:n] == alone.sentences[0].tokens
        assert torch.allclose(both.prediction.logits[number, :n], alone.prediction.logits[0], atol=1e-3)


@pytest.mark.parametrize("family", ["llava", "gemma3", "qwen2_5_vl", "qwen3_vl"])
def test_a_text_without_a_picture_is_read_as_ever(load, load_own, family):
    """Also after a picture, and where Qwen's own code keeps how far a picture moved the positions."""
    source = load(family)
    attnviz.analyze(attnviz.picture(PICTURE, QUESTION), source)
    generated = attnviz.generate("The cat", source, 4)
    model = load_own(source)
    model.model.rope_deltas = None
    ids = torch.tensor([[token.id for token in generated.sentence.tokens]])
    with torch.no_grad():
        logits = model(ids).logits

    assert torch.allclose(generated.record.prediction.logits, logits, atol=1e-3)
    assert list(generated.ids) == logits[0, generated.prompt - 1 : -1].argmax(-1).tolist()
    assert not any(token.box for token in generated.sentence.tokens)


def test_roles_of_a_chat_are_there(load):
    """The template's own words are special; the image tokens are of the user's turn."""
    (sentence,) = attnviz.load(load("llava").model, system="Be brief.").sentences(attnviz.picture(PICTURE, QUESTION))
    roles = {token.role for token in sentence.tokens}
    typed = {
        role: "".join(t.text for t in sentence.tokens if t.role == role and not t.special and not t.box)
        for role in roles
    }

    assert {role: text.replace(" ", "") for role, text in typed.items()} == {
        "system": "Bebrief.",
        "user": "Whatisthis?",
        "assistant": "",
    }
    assert all(token.role == "user" for token in sentence.tokens if token.box)


def test_tokens_without_a_place_are_said(load):
    """LLaVA-NeXT ends each row of its tiles with a token: no box is guessed where a count fits no grid."""
    record = attnviz.analyze(attnviz.picture(PICTURE, QUESTION), load("llava_next"))

    assert not record.sentences[0].has_places
    assert "have no places" in record.findings[0]
    for family in ("llava", "qwen2_vl", "internvl"):
        assert mixing.cells(load(family).facts.processor, (60, 90), 47) is None


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        ([attnviz.picture(PICTURE, "An <image> here")], "contains <image>, which stands for a picture"),
        ([attnviz.picture(PICTURE, "A"), "B"], "Some texts have pictures and some have none"),
    ],
)
def test_texts_that_cannot_be_read_say_why(load, texts, error):
    with pytest.raises(InputError, match=error):
        attnviz.analyze(texts, load("llava"))


def test_a_folder_without_a_processor_reads_text_alone(tmp_path):
    path = folder(tmp_path / "llava", "llava")
    (path / "processor_config.json").unlink()
    source = attnviz.load(str(path))

    assert attnviz.analyze("The cat", source).steps
    with pytest.raises(InputError, match=r"reads no pictures: its folder has no processor_config.json"):
        attnviz.analyze(attnviz.picture(PICTURE, QUESTION), source)


def test_a_processor_that_needs_another_package_leaves_the_text(tmp_path, monkeypatch):
    """SmolVLM's needs num2words, for videos."""
    path = folder(tmp_path / "smolvlm", "smolvlm")
    monkeypatch.setattr(transformers.models.smolvlm.processing_smolvlm, "num2words", None)
    source = attnviz.load(str(path))

    assert attnviz.analyze("The cat", source).steps
    with pytest.raises(InputError, match=r"reads no pictures: its SmolVLMProcessor cannot be used: .*num2words"):
        attnviz.generate(attnviz.picture(PICTURE, QUESTION), source)


@pytest.mark.parametrize("family", ["llava", "qwen2_vl"])
def test_a_model_that_a_person_loaded_reads_pictures_by_its_processor(load, load_own, family):
    """And has its own attention again afterwards."""
    model, processor = load_own(load(family)), load(family).facts.processor
    source, picture = attnviz.load(model, processor), attnviz.picture(PICTURE, QUESTION)
    record, expected = (attnviz.analyze(picture, each) for each in (source, load(family)))

    assert torch.allclose(record.prediction.logits, expected.prediction.logits, atol=1e-4)
    assert model.config._attn_implementation == "eager"
