"""Maps of linear attention hold to the numbers of transformers: M · values is what each layer computes itself."""

import inspect
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import pytest
import torch
import zoo
from torch.testing import assert_close

import attnviz
from attnviz import files
from attnviz.analysis import heads, rollout
from attnviz.analysis.steps import stages
from attnviz.core.edits import Edits, Site, Take
from attnviz.core.errors import InputError
from attnviz.core.masks import Full, Window
from attnviz.core.record import Step
from attnviz.core.scoring import ALL, Area
from attnviz.core.tap import Tap
from attnviz.linear import window
from attnviz.sources.huggingface import linear, running, tapped
from attnviz.sources.huggingface.source import HuggingFace
from attnviz.sources.saved import Saved
from attnviz.studies import gradients

CLASSES = {
    "qwen3_next": ("Qwen3NextForCausalLM", "norm", [0]),
    "qwen3_5_text": ("Qwen3_5ForCausalLM", "norm", [0]),
    "qwen3_5_moe_text": ("Qwen3_5MoeForCausalLM", "norm", [0]),
    "qwen4_exp_text": ("Qwen4ExpForCausalLM", "norm", [0]),
    "olmo_hybrid": ("OlmoHybridForCausalLM", "o_norm", [0]),
    "kimi_linear": ("KimiLinearForCausalLM", "o_norm", [0]),
    "bailing_hybrid": ("BailingHybridForCausalLM", "o_norm", [0]),
    "glm5_next_text": ("Glm5NextTextModel", "o_norm", [0, 1]),
    "minimax": ("MiniMaxForCausalLM", "norm", [1]),
    "bamba": ("BambaForCausalLM", "norm", [0]),
    "granitemoehybrid": ("GraniteMoeHybridForCausalLM", "norm", [0]),
    "nemotron_h": ("NemotronHForCausalLM", "norm", [0]),
    "mamba2": ("Mamba2ForCausalLM", "norm", [0, 1]),
    "falcon_h1": ("FalconH1ForCausalLM", "norm", [0, 2]),
    "zamba2": ("Zamba2ForCausalLM", "norm", [0, 2, 3, 5]),
}
"""Classes that can be built tiny, the norm that reads their heads' outputs, and their calls of linear attention."""
FEW = ["qwen3_next", "kimi_linear", "minimax", "bamba"]
"""One class for each rule."""
TEXTS = ["a cat sat on the mat, " * 7, "it was here"]
"""Texts with more tokens than two chunks of transformers' functions, and with padding."""


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    @cache
    def load(family: str, **sizes: int) -> HuggingFace:
        folder = tmp_path_factory.mktemp(family)
        zoo.save(family, CLASSES[family][0], folder, **sizes)
        return HuggingFace(str(folder))

    def sized(family: str, length: int = 192) -> HuggingFace:
        known = inspect.signature(type(zoo.config(family, CLASSES[family][0]))).parameters
        return load(family, **({"max_position_embeddings": length} if "max_position_embeddings" in known else {}))

    return sized


class Keeping(Tap):
    """A tap that keeps what each layer of linear attention computes itself."""

    def mix(self, output, *inputs, **options):
        self.own = [*getattr(self, "own", []), output]
        return super().mix(output, *inputs, **options)


def mixed(source: HuggingFace, model: torch.nn.Module, texts: list[str] = TEXTS) -> tuple[list[Step], list]:
    """The steps of linear attention, and what their layers compute themselves."""
    loaded, run = source.loaded, tapped.ModelRun(model, Edits(), tap=Keeping(Edits()))
    with torch.inference_mode():
        tapped.call(model, run, **running.inputs(source.tokenize(texts), loaded), **running.settings(model))
    return [step for step in run.tap.steps if step.mixing == "linear"], run.tap.own


def outputs(step: Step) -> torch.Tensor:
    """M · values of all heads, (B, H, n, d_v)."""
    return step.linear.weights(step.query, step.key, Area()) @ step.value.to(step.linear.gain.dtype)


def hold(step: Step, own: torch.Tensor, within: float) -> None:
    assert own.abs().max() > 1e-3
    assert (outputs(step) - own).abs().max() <= within * own.abs().max()


@pytest.mark.parametrize("family", CLASSES)
def test_maps_times_values_are_the_layers_own_outputs(opened, family):
    """All layers are shown, and each linear one equals its own code to 1e-5, also at padding."""
    source = opened(family)
    record = source.run(source.tokenize(TEXTS))
    steps, own = mixed(source, source.loaded.model)

    assert "linear" not in (source.unseen or "")
    assert source.read_only is None
    assert [site.layer for site in record.sites if record.step(site).mixing == "linear"] == CLASSES[family][2]
    for step, theirs in zip(steps, own, strict=True):
        hold(step, theirs, 1e-5)
        assert not step.weights(0)[:, :].triu(1).any()


@pytest.mark.parametrize("family", CLASSES)
def test_maps_are_exact_in_float64(opened, family, monkeypatch):
    """The same to 1e-10, with the functions of transformers in float64, which they round to float32 otherwise."""
    source = opened(family)
    model = zoo.build(family, CLASSES[family][0], max_position_embeddings=192).double()
    tapped.use_attnviz(model)
    model.set_experts_implementation("eager")  # the other ones know no float64
    doubled = set()
    for module in filter(linear.is_linear, model.modules()):
        names = inspect.unwrap(type(module).forward).__globals__
        for name in {*linear.FUNCTIONS} & {*names} - doubled:
            monkeypatch.setitem(names, name, in_double(names, name))
            doubled.add(name)
        if family == "minimax":
            module.slope_rate = module.get_slope_rate().double()
            module.query_decay, module.key_decay, module.diagonal_decay = module.decay_factors(module.slope_rate)
    steps, own = mixed(source, model)

    for step, theirs in zip(steps, own, strict=True):
        assert theirs.dtype == torch.float64
        hold(step, theirs, 1e-10)


def in_double(names: dict, name: str):
    """A function of a modeling file, with float64 where it says float32."""
    source = inspect.getsource(inspect.unwrap(names[name]))
    source = source[source.index("def ") :].replace("torch.float32", "torch.float64").replace(".float()", ".double()")
    place = dict(names)
    exec(source, place)
    return place[name]


@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize("channels", [1, 5])
def test_a_window_is_the_recurrence_written_out(delta, channels):
    """Any rows and columns, also with decays whose products are far below the smallest number."""
    torch.manual_seed(0)
    n, d = 150, 5
    query, key = torch.randn(2, n, d, dtype=torch.float64)
    key, gain = key / key.norm(dim=-1, keepdim=True), torch.rand(n, dtype=torch.float64)
    decay = -torch.rand(n, channels, dtype=torch.float64) * torch.linspace(0, 9, n)[:, None]
    state, rows = torch.zeros(d, n, dtype=torch.float64), []
    for t, value in enumerate(torch.eye(n, dtype=torch.float64)):
        state = state * decay[t].exp()[:, None]
        state = state + torch.outer(key[t], gain[t] * (value - state.T @ key[t] if delta else value))
        rows.append(state.T @ query[t])

    for places in (torch.arange(n), torch.tensor([149, 3, 64]), torch.arange(70, 75)):
        for columns in (ALL, slice(0, 1), slice(63, 71)):
            cells = window(query, key, decay, gain, places, columns, is_delta=delta)
            assert_close(cells, torch.stack(rows)[places][:, columns], rtol=0, atol=1e-12)


@pytest.mark.parametrize("family", FEW)
def test_a_cached_generation_has_the_same_rows(opened, family):
    """Steps of a cached run, joined, give the map of the whole text; and both predict the same."""
    source, (sentence,) = opened(family), opened(family).tokenize(["a cat sat"])
    loaded, ids = source.loaded, torch.tensor([[token.id for token in sentence.tokens]])
    whole, cache, parts = source.run((sentence,)), running.cache_for(source.loaded, sentence, Edits()), []
    for start, end in [(0, 4), *((i, i + 1) for i in range(4, ids.shape[1]))]:
        run = running.model_run(loaded, Edits(), None)
        read = {"input_ids": ids[:, start:end], "position_ids": torch.arange(start, end)[None]}
        with torch.inference_mode():
            output = tapped.call(loaded.model, run, **read, past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        parts.append([step for step in run.tap.steps if step.mixing == "linear"])

    assert_close(output.logits[0, -1].float(), whole.prediction.logits[0, -1], rtol=1e-4, atol=1e-4)
    for step, cached in zip((step for step in whole.steps if step.linear), zip(*parts, strict=True), strict=True):
        decay, gain = (torch.cat([getattr(part.linear, name) for part in cached], 2) for name in ("decay", "gain"))
        query, key = (torch.cat([getattr(part, name) for part in cached], 2) for name in ("query", "key"))
        joined = replace(step.linear, decay=decay, gain=gain).weights(query, key, Area())
        assert_close(joined, step.linear.weights(step.query, step.key, Area()), rtol=1e-4, atol=1e-5)


@contextmanager
def heads_replaced(source: HuggingFace, step: Step, change):
    """The norm behind a layer reads other outputs of its heads."""
    mixers = [module for module in source.loaded.model.modules() if linear.is_linear(module)]
    norm = getattr(mixers[0], CLASSES[source.loaded.config.model_type][1])

    def enter(_, arguments):
        first = arguments[0]
        each = first.reshape(step.shape[0], step.shape[2], step.num_heads, -1).transpose(1, 2)
        return change(each).transpose(1, 2).reshape(first.shape), *arguments[1:]

    hook = norm.register_forward_pre_hook(enter)
    yield
    hook.remove()


@pytest.mark.parametrize("family", FEW)
def test_edits_act_on_the_map(opened, family):
    """A head that is off, and a mask, equal the same done by a hook; no edits and an open mask change nothing."""
    source = opened(family)
    sentences = source.tokenize(TEXTS)
    record = source.run(sentences)
    step = next(step for step in record.steps if step.mixing == "linear")
    loaded, read = source.loaded, running.inputs(sentences, source.loaded)
    with torch.inference_mode():
        untapped = loaded.model(
            **read, attnviz=running.model_run(loaded, Edits(), (154, 12)), **running.settings(loaded.model)
        )
    masked = source.run(sentences, Edits(mask=Window(2, 0)))
    shown = masked.step(step.site)
    cells = shown.linear.weights(shown.query, shown.key, Area()) * Window(2, 0).grid(*step.shape[2:])
    with heads_replaced(source, step, lambda each: each.index_fill(1, torch.tensor([1]), 0)):
        zeroed = source.run(sentences)

    assert torch.equal(record.output, running.hidden(untapped).float())
    assert_close(source.run(sentences, Edits(mask=Full())).output, record.output, rtol=1e-4, atol=1e-4)
    off = source.run(sentences, Edits(heads_off={(step.site, 1)}))
    assert torch.equal(off.output, zeroed.output)
    assert not torch.equal(off.output, record.output)
    assert_close(torch.stack([shown.weights(head) for head in range(step.num_heads)]), cells[0], rtol=1e-5, atol=1e-6)
    softmax_as_masked = Edits(mask=Window(2, 0)) if len({one.mixing for one in record.steps}) > 1 else Edits()
    with heads_replaced(source, step, lambda each: cells @ shown.value):
        assert_close(source.run(sentences, softmax_as_masked).output, masked.output, rtol=1e-4, atol=1e-4)


def test_what_is_taken_from_another_text_goes_through_the_map(opened):
    """Values and outputs can be taken; a pattern is refused."""
    source = opened("qwen3_next")
    (sentence,), (other,) = source.tokenize(["a cat"]), source.tokenize(["a dog"])
    site = Site("decoder", 0)
    theirs = source.run((other,)).step(site)
    for part in ("values", "output"):
        step = source.run((sentence,), Edits(taken=(Take("a dog", part, site, 1),))).step(site)
        own = step.value[0, 1] if part == "values" else step.output(1)
        assert_close(own, theirs.value[0, 1] if part == "values" else theirs.output(1), rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match="pattern cannot change there"):
        source.run((sentence,), Edits(taken=(Take("a dog", "pattern", site),)))


@pytest.mark.parametrize(
    ("edits", "what"),
    [
        (Edits(temperature=2), "temperature"),
        (Edits(scale=1, softcap=3), "scale and softcap"),
        (Edits(own_mask=False), "built-in mask"),
    ],
)
def test_what_needs_a_softmax_is_refused(opened, edits, what):
    """In one sentence that says where; at the site of a softmax alone it acts."""
    source = opened("bamba")
    sentences = source.tokenize(["a cat"])

    message = f"^decoder layer 0 is linear attention, without scores and softmax: {what} cannot change there"
    with pytest.raises(InputError, match=message):
        source.run(sentences, edits)
    here = replace(edits, scored_site=Site("decoder", 1), own_mask=True)
    assert torch.equal(source.run(sentences, here).output, source.run(sentences).output) == (here == Edits())


def test_a_record_of_linear_attention_is_saved_and_edited(opened, tmp_path):
    """A file holds the gates; an edit of the saved run acts on its map."""
    source = opened("kimi_linear")
    record = source.run(source.tokenize(["a cat sat"]))
    saved = Saved("run", files.read(attnviz.save(record, tmp_path / "run.attn")))
    site = Site("decoder", 0)
    again = saved.run(saved.record.sentences, Edits(mask=Window(1, 0)))

    assert_close(saved.record.step(site).weights(1), record.step(site).weights(1), rtol=0, atol=0)
    assert_close(again.step(site).weights(1), record.step(site).weights(1).tril().triu(-1), rtol=1e-5, atol=1e-6)


def test_what_needs_shares_or_scores_says_why_it_is_missing(opened):
    """Metrics of shares are empty, rollout and scores are refused, the stages of a row have a reason."""
    source = opened("bamba")
    record = source.run(source.tokenize(["a cat sat"]))
    linear_site, softmax_site = record.sites
    table = heads.head_metrics(record).set_index("layer")
    chain = {stage.key: stage for stage in stages.chain(record, source, linear_site, 0)}

    assert table.loc[0, ["entropy", "previous", "confidence"]].isna().all(axis=None)
    assert table.loc[0, "output_share"].sum() == pytest.approx(1)
    assert table.loc[1, "entropy"].notna().all()
    assert [record.has_scores(site) for site in record.sites] == [False, True]
    assert heads.farthest(record, linear_site, 0) == []
    assert len(heads.farthest(record, softmax_site, 0)) == 3
    assert "no scores and no softmax" in chain["scale"].missing
    with pytest.raises(InputError, match="it has weights, and no scores"):
        record.step(linear_site).scores(0)
    with pytest.raises(InputError, match=r"decoder layer 0 is linear attention: its weights may be negative"):
        rollout.mixed(record)


def test_gradients_reach_the_maps(opened):
    """A head's summed gradient times weight is its output times the gradient there, so it changes with the head off."""
    source = opened("qwen3_next")
    record = source.run(source.tokenize(["a cat sat"]))
    relevance = gradients.relevance(source, record)

    products = relevance.products[Site("decoder", 0)]
    assert products.shape[0] == record.steps[0].num_heads
    assert products.isfinite().all()
    assert products.abs().max() > 0


@pytest.mark.parametrize("family", ["qwen3_next", "bamba"])
def test_a_text_of_8192_tokens_opens(opened, family):
    """Rows of a window are those of its output, though no whole map is made."""
    source, text = opened(family, 8300), "a cat sat on the mat. " * 374
    step, rows = source.run(source.tokenize([text])).steps[0], slice(8100, 8164)

    assert step.shape[2] > 8192
    _, own = mixed(source, source.loaded.model, [text])
    mine = step.weights(1, rows) @ step.value[0, 1]
    assert (mine - own[0][0, 1, rows]).abs().max() <= 1e-5 * own[0].abs().max()


@pytest.mark.parametrize("clears", [True, False])
def test_padding_that_reaches_the_state_is_reported(opened, clears, monkeypatch):
    """A model that does not clear padding answers otherwise when padded on the left; the others ways are the same."""
    source = opened("qwen3_next")
    names = inspect.unwrap(type(next(filter(linear.is_linear, source.loaded.model.modules()))).forward).__globals__
    if not clears:
        monkeypatch.setitem(names, "apply_mask_to_padding_states", lambda states, mask: states)
    report = attnviz.check_model(source, "a cat sat", runs=["left", "cached", "chunked", "batched"])
    wrong = [finding.message for finding in report.findings if finding.severity == "error"]

    assert len(wrong) == (not clears)
    assert clears or wrong[0].startswith("left: ")
    assert sum(line.startswith("Runs: ") for line in report.passed) == 4 - (not clears)
