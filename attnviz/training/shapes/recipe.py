"""How the model that reads pictures of two shapes is trained, as a folder that transformers opens."""

from dataclasses import dataclass
from pathlib import Path
from random import Random

from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessorPil

from attnviz.models import trained
from attnviz.training.harness import Recipe
from attnviz.training.shapes.drawing import CLASSES, Scenes, draw, scenes

BATCH = 64


@dataclass(frozen=True)
class Sizes:
    """Sizes of a vision Transformer; a picture of `side` x `side` pixels is cut into squares of `patch` pixels."""

    side: int = 64
    patch: int = 8
    d_model: int = 64
    num_heads: int = 4
    num_layers: int = 2
    d_ff: int = 128
    spread: float = 0.08
    """Standard deviation of the first weights; from the 0.02 of transformers so narrow a model learns much later."""

    def build(self) -> ViTForImageClassification:
        """Make the model with random weights of torch's generator."""
        config = ViTConfig(
            image_size=self.side,
            patch_size=self.patch,
            hidden_size=self.d_model,
            num_attention_heads=self.num_heads,
            num_hidden_layers=self.num_layers,
            intermediate_size=self.d_ff,
            initializer_range=self.spread,
            id2label=dict(enumerate(CLASSES)),
            label2id={label: i for i, label in enumerate(CLASSES)},
        )
        return ViTForImageClassification(config)


SIZES = Sizes()


def pictures(seed: int, number: int) -> tuple[Scenes, Tensor]:
    """Scenes and what the model reads of them: (B, 3, side, side) from -1 to 1."""
    chance = Generator().manual_seed(seed)
    drawn = scenes(chance, number)
    return drawn, draw(drawn, SIZES.side, chance) / 127.5 - 1


def loss(model: nn.Module, chance: Random) -> Tensor:
    """Cross-entropy of the sentences of a batch of new pictures."""
    drawn, read = pictures(chance.getrandbits(62), BATCH)
    return cross_entropy(model(pixel_values=read).logits, drawn.label)


def accuracy(model: nn.Module, seed: int, number: int) -> float:
    """Share of so many pictures whose sentence gets the largest logit."""
    drawn, read = pictures(seed, number)
    return float((model(pixel_values=read).logits.argmax(-1) == drawn.label).float().mean())


def load() -> ViTForImageClassification:
    """The shipped model, which gives its attention weights if asked for them."""
    return ViTForImageClassification.from_pretrained(trained.folder("shapes"), attn_implementation="eager").eval()


def write(model: nn.Module, folder: Path, step: int) -> None:
    """Write the folder that transformers opens: the model and its image processor."""
    model.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # safetensors leaves it to its owner alone, and others run the app too
    size = {"height": SIZES.side, "width": SIZES.side}
    ViTImageProcessorPil(size=size, resample=2, image_mean=[0.5] * 3, image_std=[0.5] * 3).save_pretrained(folder)


RECIPE = Recipe(
    name="shapes",
    config=SIZES,
    vocabularies={},
    loss=loss,
    score=lambda model: accuracy(model, 1, 500),
    steps=3_500,
    kept=(3_500,),
    rate=3e-3,
    write=write,
)
