"""Every class of transformers that reads text works or is refused in one sentence."""

import pytest
import zoo
from examples import some
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
from zoo import Kind

pytestmark = pytest.mark.usefixtures("nothing_is_kept")

CLASSES: dict[tuple[Kind, str], str] = {
    ("works", ""): "BigBirdForMaskedLM CLIPTextModel DogeForCausalLM FSMTForConditionalGeneration HYV4ForCausalLM "
    "Inkling2ForCausalLM LayoutLMForMaskedLM MvpForConditionalGeneration NemotronForCausalLM "
    "NllbMoeForConditionalGeneration SeamlessM4TForTextToText SqueezeBertForMaskedLM StableLmForCausalLM",
    ("works", "2 encoder layers compute attention 4 times"): "LiltModel",
    ("works", "2 decoder layers compute attention 4 times"): "DiffLlamaForCausalLM",
    ("works", "The encoder attention is not shown"): "BigBirdPegasusForConditionalGeneration "
    "LEDForConditionalGeneration PegasusXForConditionalGeneration",
    ("works", "the others compute JambaMambaMixer"): "JambaForCausalLM",
    ("refused", "no table of vectors for tokens"): "CanineModel",
    ("refused", "no"): "CpmAntForCausalLM",
    ("refused", "for 2 texts of 28 tokens"): "FunnelBaseModel",
    ("refused", "gives hidden states of (4, "): "Gemma3nForCausalLM",
    ("refused", "one map of all queries and keys"): "FunnelForMaskedLM LongformerForMaskedLM "
    "LongT5ForConditionalGeneration MambaForCausalLM MraForMaskedLM ProphetNetForConditionalGeneration RwkvForCausalLM "
    "YosoForMaskedLM",
}
"""Expected results of classes that were once misread or failed."""
NAMED = {name: outcome for outcome, names in CLASSES.items() for name in names.split()}
FAMILY = {name: family for family, name in reversed(zoo.combinations())}


@pytest.mark.parametrize("name", some(tuple(NAMED), 12))
def test_a_class_that_was_misread_is_not(name, tmp_path):
    """Each has its known outcome, in true words; numbers, kinds and edits are compared with its own attention."""
    expected, words = NAMED[name]
    kind, told = zoo.outcome(FAMILY[name], name, tmp_path)

    assert kind == expected
    assert (words in told) if words else not told
    assert "\n" not in told


@pytest.mark.sweep
@pytest.mark.parametrize(("family", "name"), zoo.named(zoo.combinations()))
def test_every_class_works_or_is_refused(family, name, tmp_path, record_property):
    """The weights equal the model's own eager attention; a sentence names what is not shown."""
    if {family, name} & zoo.UNBUILT:
        kind, told = "not built", zoo.unbuilt(family, name, tmp_path)
    elif not zoo.reads_text(family, name):
        kind, told = "no text", zoo.unbuilt(family, name, tmp_path)
        others = ("does not read text alone", "reads pictures and has no", "reads sounds and has no", "hears")
        reads_images_beside_text = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.get(family) == name  # perhaps text alone
        assert any(words in told for words in others) or reads_images_beside_text
    else:
        kind, told = zoo.outcome(family, name, tmp_path)
    record_property("outcome", (kind, family, name, told))

    assert "\n" not in told
