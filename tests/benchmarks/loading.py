"""What a Hugging Face model costs beside transformers alone: `make bench`. It prints ratios, and asserts nothing.

Models of random weights and real sizes are loaded from a folder. "first" loads a class and configuration that was not
loaded before, and is tried; "again" one that was. Goals: again within 1.5 of `from_pretrained` for model
and tokenizer; a run within 1.15 of the plain forward.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import transformers
from measure import interleaved, machine, table

from attnviz.sources.huggingface import loading, trial
from attnviz.sources.huggingface.source import HuggingFace

sys.path.insert(0, str(Path(__file__).parents[1] / "sources" / "huggingface"))
import zoo

LLAMA = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 16, "num_attention_heads": 16}
MODELS = (
    (transformers.GPT2LMHeadModel, {}),
    (transformers.LlamaForCausalLM, LLAMA | {"num_key_value_heads": 8}),
    (transformers.BertForMaskedLM, {}),
)
LENGTHS = (128, 512)


def row(kind: type, sizes: dict[str, int], folder: str) -> list[str]:
    model = kind(kind.config_class(**sizes)).eval()
    model.save_pretrained(folder)
    zoo.tokenizer().save_pretrained(folder)

    def first() -> None:
        trial._trials.clear()
        loading.load(folder)

    def plain() -> None:
        kind.from_pretrained(folder)
        transformers.AutoTokenizer.from_pretrained(folder)

    cases = {"plain": plain, "first": first, "again": lambda: loading.load(folder)}
    took = interleaved(cases, rounds=5, span=0, budget=60)
    cells = [f"{took['plain']:.2f} s", *(f"{took[name] / took['plain']:.2f}" for name in ("first", "again"))]
    source = HuggingFace(folder)
    for length in LENGTHS:
        sentences = source.tokenize(["a" * (length - 1)])
        ids = torch.tensor([[token.id for token in sentences[0].tokens]])
        with torch.inference_mode():
            cases = {"plain": lambda ids=ids: model(ids), "run": lambda read=sentences: source.run(read)}
            took = interleaved(cases, rounds=5, span=0, budget=60)
        cells.append(f"{took['run'] / took['plain']:.2f}")
    return [kind.__name__, f"{model.num_parameters() / 1e6:.0f}", *cells]


def main() -> None:
    print(machine(), file=sys.stderr)
    rows = []
    for kind, sizes in MODELS:
        with TemporaryDirectory() as folder:
            rows.append(row(kind, sizes, folder))
    columns = ["model", "million numbers", "from_pretrained", "first", "again", *(f"run, {n}" for n in LENGTHS)]
    table("Loading and running beside transformers alone", columns, rows)


if __name__ == "__main__":
    main()
