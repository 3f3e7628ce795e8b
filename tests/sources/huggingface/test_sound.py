"""Models that hear: which time each position stands for, and that attention, words and edits are the model's own."""

import pytest
import torch
import transformers as hf
from hear import FAMILIES, RATE, folder, tones

import attnviz
from attnviz.core.errors import InputError
from attnviz.sources.huggingface.senses import plane_of, resample

SOUND = attnviz.sound(tones(), RATE)
ENCODER, CROSS = attnviz.Site("encoder", 1), attnviz.Site("cross", 1)


@pytest.fixture(scope="module")
def load(load_each):
    return load_each(folder)


def features(source, samples=SOUND.pictures[0][0].samples):
    return source.loaded.processor(samples.numpy(), sampling_rate=RATE, return_tensors="pt")


def eager(source, record):
    """Run the model itself with its own eager attention and the same words for its decoder."""
    more = {}
    if record.targets:
        more["decoder_input_ids"] = torch.tensor([[token.id for token in record.targets[0].tokens]])
    with torch.no_grad():
        return source.loaded.model(**features(source), **more, output_attentions=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_are_those_of_the_model(load, family):
    """In every layer and head: over time, over words, and from words to time; so are its labels."""
    source = load(family)
    record = attnviz.analyze(SOUND, source)
    output = eager(source, record)
    names = {kind: f"{kind}_attentions" for kind in ("encoder", "decoder", "cross")}
    names = names if family == "whisper" else {"encoder": "attentions"}

    assert {step.site.kind for step in record.steps} == {*names}
    assert len(record.steps) == 2 * len(names)
    assert not record.unseen
    if record.labels:
        assert record.labels[0] == ("LABEL_0", "LABEL_1", "LABEL_2")
        assert torch.allclose(record.labels[1], output.logits, atol=1e-5)
    for step in record.steps:
        weights = torch.stack([step.weights(head) for head in range(step.num_heads)])
        assert torch.allclose(weights, getattr(output, names[step.site.kind])[step.site.layer][0], atol=1e-5)


def test_words_are_those_that_the_model_writes(load):
    source = load("whisper")
    record = attnviz.analyze(SOUND, source)
    ids = source.loaded.model.generate(**features(source), do_sample=False, num_beams=1, max_new_tokens=16)
    tokens = record.targets[0].tokens

    assert [token.id for token in tokens[1:]] == [id for id in ids[0].tolist() if id != 1]
    assert record.prediction.written == (record.targets[0].text,)
    assert record.targets[0].text == " ".join(token.text for token in tokens[1:])
    assert record.prediction.logits[0].argmax(-1)[:-1].tolist() == [token.id for token in tokens[1:]]
    assert torch.allclose(record.prediction.logits, eager(source, record).logits, atol=1e-4)


def test_a_click_is_heard_by_the_convolutions_of_its_position_alone(load):
    """By those of wav2vec 2.0, whatever the position: one loud sample in silence, in the middle of its box."""
    source = load("wav2vec2")
    silence = torch.zeros(RATE)
    (sentence,) = source.sentences(attnviz.sound(silence, RATE))
    hears = source.loaded.model.feature_extractor
    before = hears(silence[None])

    assert before.shape[-1] == len(sentence.tokens)
    for i, token in enumerate(sentence.tokens):
        click = silence.clone()
        click[round((token.box.left + token.box.right) / 2 * RATE)] = 1
        changed = (hears(click[None]) - before).abs().amax(1)[0] > 1e-6
        assert changed.nonzero().flatten().tolist() == [i]


def test_a_click_is_loudest_in_the_frames_of_its_position(load):
    """In the mel frames of Whisper, of which a position reads the one in its middle and its neighbors."""
    source = load("whisper")
    silence = torch.zeros(RATE)
    (sentence,) = source.sentences(attnviz.sound(silence, RATE))
    placed = [token for token in sentence.tokens if token.box]

    assert (len(placed), len(sentence.tokens)) == (51, 100)
    for i, token in enumerate(placed[1:-1], 1):
        click = silence.clone()
        click[round((token.box.left + token.box.right) / 2 * RATE)] = 1
        frames = features(source, click)["input_features"][0].amax(0)
        heard = (frames > frames.min() + 1e-4).nonzero().flatten().tolist()
        assert 2 * i in heard
        assert set(heard) <= {2 * i - 1, 2 * i, 2 * i + 1}


def test_a_tone_is_loudest_in_the_cells_of_its_time_and_pitch(load):
    """For an Audio Spectrogram Transformer, whose positions are two special ones, then bands of frequencies by time."""
    source = load("ast")
    silence = torch.zeros(RATE)
    (sentence,) = source.sentences(attnviz.sound(silence, RATE))
    patching, half = source.facts.patching, 300  # samples of half a tone: 19 ms
    rows, columns = patching.cells(plane_of(source.loaded.processor, sentence.pictures[0]))
    before = features(source, silence)["input_values"]

    assert [token.text for token in sentence.tokens[:2]] == ["[CLS]", "[DISTILL]"]
    assert (rows.count, columns.count, len(sentence.tokens)) == (2, 11, 24)
    for i, token in enumerate(sentence.tokens[2:]):
        if token.box is None:
            continue
        seconds, pitch = (float(part.split()[0].replace(",", "")) for part in token.text.split(" · "))
        time = torch.arange(RATE)
        tone = torch.sin(2 * torch.pi * pitch * time / RATE) * ((time - seconds * RATE).abs() < half)
        louder = features(source, tone)["input_values"][0] - before[0]
        frame, band = divmod(int(louder.flatten().argmax()), louder.shape[1])
        row, column = divmod(i, columns.count)
        assert abs(band + 0.5 - rows.middle(row)) < 2
        assert abs(frame + 0.5 - columns.middle(column)) < 3
        picture = attnviz.sound(tone, RATE).pictures[0][0].pixels[..., 0].float()
        y, x = divmod(int(picture.flatten().argmax()), picture.shape[1])
        assert abs(y + 0.5 - (token.box.top + token.box.bottom) / 2 * picture.shape[0]) < 2
        assert abs(x + 0.5 - (token.box.left + token.box.right) / 2 * picture.shape[1]) < 3


def test_a_head_that_is_off_changes_the_words_as_zeroing_it_does(load):
    """The part of a head is cut out of the input of the output projection, by a hook of the test's own."""
    source, site = load("whisper"), attnviz.Site("cross", 0)
    record = attnviz.analyze(SOUND, source, attnviz.Edits(heads_off={(site, 1)}))
    projection = source.loaded.model.get_submodule(source.facts.trial.calls[site]).out_proj

    def zero(module, args):
        states = args[0].clone()
        states[..., 8:16] = 0
        return (states,)

    hook = projection.register_forward_pre_hook(zero)
    try:
        ids = source.loaded.model.generate(**features(source), do_sample=False, num_beams=1, max_new_tokens=16)
        assert torch.allclose(record.prediction.logits, eager(source, record).logits, atol=1e-4)
    finally:
        hook.remove()
    assert [token.id for token in record.targets[0].tokens[1:]] == [id for id in ids[0].tolist() if id != 1]


def test_words_of_a_persons_own_are_read_instead(load):
    source = load("whisper")
    record = attnviz.analyze(SOUND, source, target="w3 w4")

    assert record.targets[0].labels == ("<start>", "w3", "w4")
    assert record.tokens(CROSS)[1][10].text == "0.20 s"


def test_a_sound_of_another_rate_is_heard_as_the_same(load):
    """Resampled to the model's rate: tones stay what they are."""
    source, other = load("whisper"), attnviz.sound(tones(rate=44_100), 44_100)
    samples = resample(other.pictures[0][0].samples, 44_100, RATE)

    assert len(samples) == RATE
    assert (samples - SOUND.pictures[0][0].samples)[100:6000].abs().max() < 0.02
    assert source.sentences(other)[0].labels == source.sentences(SOUND)[0].labels


def test_what_is_no_sound_is_refused_with_the_way_for_sounds(load):
    picture = attnviz.picture(torch.zeros(20, 20, 3))
    for text in ("The cat", picture):
        with pytest.raises(InputError, match=r"hears one sound, and reads no text; given .*attnviz.sound"):
            attnviz.analyze(text, load("wav2vec2"))
    with pytest.raises(InputError, match=r"hears up to 2 s; this sound lasts 2.50 s. Cut it."):
        attnviz.analyze(attnviz.sound(tones(2.5), RATE), load("whisper"))
    with pytest.raises(InputError, match="hears sounds of one length together"):
        attnviz.analyze([SOUND, attnviz.sound(tones(0.5), RATE)], load("wav2vec2"))


def test_a_model_whose_positions_are_no_stretches_of_time_says_so(tmp_path):
    """W2V-BERT reads two frames as one, without a convolution that says so."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    sizes |= {"output_hidden_size": 32, "feature_projection_input_dim": 16}
    hf.Wav2Vec2BertModel(hf.Wav2Vec2BertConfig(**sizes)).save_pretrained(tmp_path)
    hf.SeamlessM4TFeatureExtractor(feature_size=8, num_mel_bins=8).save_pretrained(tmp_path)

    with pytest.raises(InputError, match="no stretches of time by its convolutions"):
        attnviz.load(str(tmp_path))


def test_a_record_of_a_sound_is_saved_with_its_spectrogram(load, tmp_path):
    record = attnviz.analyze(SOUND, load("whisper"))
    attnviz.save(record, tmp_path / "sound.attn")
    again = attnviz.read(tmp_path / "sound.attn")

    assert again.sentences[0].tokens == record.sentences[0].tokens
    assert again.sentences[0].pictures[0].seconds == 1
    assert torch.equal(again.sentences[0].pictures[0].pixels, SOUND.pictures[0][0].pixels)
    assert torch.equal(again.step(CROSS).weights(0), record.step(CROSS).weights(0))
