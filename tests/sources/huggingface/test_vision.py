"""Vision models: where each patch stands, and that attention, labels and edits are the model's own."""

import math

import numpy as np
import pytest
import torch
import transformers
from sight import FAMILIES, SMALL, WINDOWED, folder, uneven

import attnviz
from attnviz.core.errors import AttnvizError, InputError

CHANCE = np.random.RandomState(0)
PICTURE = (CHANCE.rand(60, 90, 3) * 255).astype(np.uint8)


@pytest.fixture(scope="module")
def load(load_each):
    return load_each(folder)


def eager(source, picture):
    """Run the model itself on a picture with its own eager attention."""
    model = source.loaded.model
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    read = source.loaded.processor([picture], return_tensors="pt")
    with torch.no_grad():
        output = model(**read, output_attentions=True)
    model.set_attn_implementation(before)
    return output


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_are_those_of_the_model(load, family):
    """Eager attention, as transformers itself returns it, in every layer and head."""
    source = load(family)
    record, output = attnviz.analyze(attnviz.picture(PICTURE), source), eager(source, PICTURE)
    names = {"encoder": ("attentions", "encoder_attentions"), "decoder": ("decoder_attentions",)}
    names["cross"] = ("cross_attentions",)
    compared = 0
    for step in record.steps:
        given = next((maps for name in names[step.site.kind] if (maps := getattr(output, name, None))), None)
        if given is None:  # the pooling head of SigLIP, which transformers gives back nowhere
            assert (family, step.site.kind) == ("siglip", "cross")
            continue
        weights = torch.stack([step.weights(head) for head in range(step.num_heads)])
        assert torch.allclose(weights, given[step.site.layer][0], atol=1e-5)
        compared += 1
    assert compared >= 2


OVERLAPPING = {"segformer", "detr"}


@pytest.mark.parametrize("family", [family for family in FAMILIES | WINDOWED if family not in OVERLAPPING])
def test_a_bright_cell_changes_the_pixels_of_its_patch_alone(load, family):
    """The picture has the size of the model's input, and each patch is at its box."""
    source = load(family)
    processor = source.loaded.processor
    height, width = processor([PICTURE], return_tensors="pt")["pixel_values"].shape[2:]
    for name in ("do_resize", "do_center_crop"):
        setattr(processor, name, False)
    try:
        dark = np.zeros((height, width, 3), np.uint8)
        (sentence,) = source.sentences(attnviz.picture(dark))
        before = processor([dark], return_tensors="pt")["pixel_values"][0]
        placed = [token for token in sentence.tokens if token.box]
        assert placed
        covered = np.zeros((height, width), int)
        side = math.prod(down.stride for down, _ in source.facts.patching.layers)  # pixels from a patch to the next
        for token in placed:
            box = token.box
            top, bottom = round(box.top * height), round(box.bottom * height)
            left, right = round(box.left * width), round(box.right * width)
            bright = dark.copy()
            bright[top:bottom, left:right] = 255
            changed = (processor([bright], return_tensors="pt")["pixel_values"][0] != before).any(0)
            row, column = (int(part.strip("rowcl")) for part in token.text.split("·"))
            assert changed.nonzero().amin(0).tolist() == [row * side, column * side]
            assert changed.nonzero().amax(0).tolist() == [
                min((row + 1) * side, height) - 1,
                min((column + 1) * side, width) - 1,
            ]
            covered[top:bottom, left:right] += 1
        assert (covered == 1).all()
    finally:
        for name in ("do_resize", "do_center_crop"):
            delattr(processor, name)


def test_boxes_of_overlapping_patches_are_around_the_middle_of_what_they_read(load):
    """SegFormer convolves 7 x 7 pixels for each 4 x 4, and again later: half a patch beside a grid."""
    source = load("segformer")
    record = attnviz.analyze(attnviz.picture(np.zeros((64, 64, 3), np.uint8)), source)
    modules = source.loaded.model.named_modules()
    convolutions = [part for name, part in modules if name.endswith("patch_embeddings.proj")]
    keys = next(part for part in source.loaded.model.modules() if getattr(part, "kernel_size", 0) == (4, 4))
    first, second = (record.texts(attnviz.Site("encoder", layer)) for layer in range(2))
    assert [len(sentence.tokens) for sentence in (*first, *second)] == [256, 16, 64, 16]
    for sentence, chain in (
        (first[0], convolutions[:1]),
        (second[0], convolutions),
        (first[1], [convolutions[0], keys]),
    ):
        token = next(token for token in sentence.tokens if token.text == "row2·col1")
        pixels = torch.zeros(1, 3, 64, 64, requires_grad=True)
        torch.nn.Sequential(*chain)(pixels)[0, :, 2, 1].sum().backward()
        read = pixels.grad[0].abs().sum(0).nonzero()  # what the cell depends on
        expected = ((read.amin(0) + read.amax(0) + 1) / 2 / 64).tolist()
        middle = [(token.box.top + token.box.bottom) / 2, (token.box.left + token.box.right) / 2]
        assert middle == pytest.approx(expected, abs=0.002)


def test_patches_in_another_order_are_refused(load):
    """A model that mixes them up before it attends: no position would be where its box says."""
    loaded = load("vit").loaded
    patches = loaded.model.vit.embeddings.patch_embeddings
    hook = patches.register_forward_hook(lambda module, given, output: output.flip(1))
    try:
        with pytest.raises(InputError, match="attends to 17 positions, and a bright patch changes others than its own"):
            attnviz.load(loaded.model, loaded.processor)
    finally:
        hook.remove()


def test_a_model_that_draws_at_random_is_refused(tmp_path):
    """A masked autoencoder keeps another quarter of the patches in each run; that no run is the next one is said."""
    sizes = {"decoder_hidden_size": 32, "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 4}
    config = transformers.ViTMAEConfig(**SMALL | {"image_size": 64}, **sizes, decoder_intermediate_size=32)
    uneven(transformers.ViTMAEModel(config)).save_pretrained(tmp_path)
    transformers.ViTImageProcessorPil(size={"height": 64, "width": 64}).save_pretrained(tmp_path)

    with pytest.raises(InputError, match=r"ViTMAEModel. draws at random: two runs on one picture differ"):
        attnviz.load(str(tmp_path))


def test_a_model_that_attends_in_pieces_of_a_picture_alone_is_refused():
    """MobileViT attends among every fourth pixel of a map, which is no row of the picture's patches."""
    sizes = {"hidden_sizes": [32] * 3, "neck_hidden_sizes": [8] * 6 + [16], "num_attention_heads": 4}
    model = transformers.MobileViTModel(transformers.MobileViTConfig(image_size=64, **sizes))

    with pytest.raises(InputError, match="attends to 16 positions that are no rows and columns of patches"):
        attnviz.load(model, transformers.ViTImageProcessorPil(size={"height": 64, "width": 64}))


def test_places_follow_what_a_processor_cuts_away(load):
    """DINOv2's takes 32 x 32 of 40 x 60: the sides of a wide picture are read by nobody."""
    (sentence,) = load("dinov2").sentences(attnviz.picture(PICTURE))
    first, last = sentence.tokens[1].box, sentence.tokens[-1].box

    assert (first.left, first.top) == pytest.approx((14 / 60, 4 / 40), abs=0.005)
    assert (last.right, last.bottom) == pytest.approx((46 / 60, 36 / 40), abs=0.005)


def test_queries_of_a_detector_have_labels_and_look_at_patches(load):
    source = load("detr")
    record, output = attnviz.analyze(attnviz.picture(PICTURE), source), eager(source, PICTURE)
    queries, keys = record.texts(attnviz.Site("cross", 1))

    assert (len(queries.tokens), queries.has_places, keys.has_places) == (7, False, True)
    assert torch.allclose(record.prediction.logits, output.logits, atol=1e-5)
    assert record.prediction.vocabulary[-1] == "no object"


def test_text_is_refused_with_the_way_for_pictures(load):
    with pytest.raises(InputError, match=r"reads one picture, and no text; given 'The cat'.*attnviz.picture"):
        attnviz.analyze("The cat", load("vit"))


def test_a_model_without_attention_says_so(tmp_path):
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=2)
    transformers.ResNetForImageClassification(config).save_pretrained(tmp_path)
    transformers.ConvNextImageProcessorPil().save_pretrained(tmp_path)

    with pytest.raises(AttnvizError, match="No attention was captured"):
        attnviz.load(str(tmp_path))


def test_places_are_measured_to_a_pixel_of_a_large_picture(load):
    """Also if the colors of the ramp and of a smaller picture are rounded in step."""
    for side in (320, 640, 1000):
        (sentence,) = load("vit").sentences(attnviz.picture(np.zeros((side, side, 3), np.uint8)))
        edges = np.array([[t.box.left, t.box.top, t.box.right, t.box.bottom] for t in sentence.tokens if t.box])
        assert abs(edges * 4 - (edges * 4).round()).max() < 0.004


def test_settings_of_a_chat_are_refused_by_a_model_that_reads_no_text(load):
    """Taken in silence, they would seem to act."""
    source = load("vit")

    with pytest.raises(InputError, match="reads no text, and has no setting 'chat'; leave it out"):
        attnviz.load(source.id, chat=True)
