"""Train the byte-pair encoding in assets/tokenizers/bpe.json: ``python -m attnviz.training.bpe``."""

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from attnviz.core import assets
from attnviz.tokenizers import SPECIAL
from attnviz.training.corpus import lines

VOCABULARY = 4_000

WORD = r"[\p{L}\p{M}]+(?:['’][\p{L}\p{M}]+)*"
PARTS = rf" ?{WORD}| ?\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+|\s+(?!\S)|\s+"
"""What no token crosses: GPT-2's rule, with marks and apostrophes kept in their words, and digits by three."""


def train() -> str:
    """The trained tokenizer as JSON; the same bytes every time."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PARTS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines(), trainer)
    return tokenizer.to_str(pretty=True) + "\n"


def main() -> None:
    place = assets.path("tokenizers/bpe.json")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(train(), encoding="utf-8")
    print(f"wrote {place} ({place.stat().st_size / 1e3:.0f} kB)")


if __name__ == "__main__":
    main()
