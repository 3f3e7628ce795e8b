"""Random words, of which a passage is said again and again: what the induction model reads."""

from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from attnviz.tokenizers.base import SOS, SPECIAL
from attnviz.tokenizers.vocabulary import UNK, Vocabulary
from attnviz.training.harness import is_held_out

WORDS = """
a about after again air all also always am an and animal anna another any apple are arm around as ask at away baby back
ball be beach bear because bed before behind ben best better big bird black blue boat body book both bought box boy
bread brings brother brown bus but by cake call came can car carry cat cats chair child city clean clear close cloud
coffee cold color come corn could country cow cross cup cut dance dark day deep did didn't do does dog dogs door down
draw dream drink drive dry each ear early earth eat egg emma end even evening every eye face fall family far farm fast
father feel few field find fire first fish five flower fly food foot for forest forgot found four fox friend from full
fun game garden gave get girl give glass go gold good got grass great green ground grow had hair half hand happy hard
has hat have he head hear heart help her here high hill him his hold home horse hot hour house how hungry i ice if in
into is it john jump jumps just keep kind king kitchen knew know lake land last late laugh lazy leaf learn left leg let
letter life light like likes line listen little live long look lost love loves low lucy made make man many map mary mat
max me mice milk moon more morning mother mouse mouth move much music my name near never new next nice night no north
not now of off old on one open or other our out over own paper park people pick picture place plant play please pull
put quick rain ran read red rest ride right river road robot rock room rose run runs sad said sang sat saw say says
school sea see seed seven she ship shoe short show sing sister sit sits six sky sleep slow small snow so soft some song
soon sound south stand star stay stone stop story street sun sweet swim table take talk tall tea tell ten than that the
their them then there they thing think this three time tired to today together told tom too took town train tree true
try two under until up us very voice wait walk wall want warm was wash watch water we week well went were what when
where which white who why wild will wind window winter with woman wood word work world write year yellow yes yesterday
you young your
"""
VOCABULARY = Vocabulary((*".,!?", *sorted(WORDS.split())))
LONGEST = 64
"""Positions, <sos> and all."""

UNKNOWN = 0.02
"""So many of the words are ones that the vocabulary has not, so that an unknown word is nothing new."""


@dataclass(frozen=True)
class Drawn:
    """Words at random: after an opening comes a passage that is said again and again until there are LONGEST words.

    Attributes:
        words: some are `UNK`.
        opening: how many words come before the passage.
        period: how many words the passage has.
    """

    words: tuple[str, ...]
    opening: int
    period: int

    @property
    def text(self) -> str:
        return " ".join(self.words)


def draw(chance: Random) -> Drawn:
    """Only `Random.random` is used: Python promises its numbers in every version."""

    def number(least: int, most: int) -> int:
        return least + int(chance.random() * (most + 1 - least))

    def word() -> str:
        words = VOCABULARY.words
        return UNK if chance.random() < UNKNOWN else words[number(0, len(words) - 1)]

    period = number(4, 20)
    opening = number(0, LONGEST - 2 * period)
    words = [word() for _ in range(opening + period)]
    while len(words) < LONGEST:
        words.append(words[-period])
    return Drawn(tuple(words), opening, period)


def sample(chance: Random, many: int, *, held_out: bool) -> list[Drawn]:
    """Draws whose text is held out, or none of them."""
    found: list[Drawn] = []
    while len(found) < many:
        drawn = draw(chance)
        if is_held_out(drawn.text) == held_out:
            found.append(drawn)
    return found


def tensors(drawn: list[Drawn]) -> tuple[Tensor, Tensor]:
    """What is read, (B, LONGEST), from <sos> on, and the word after each; -100 where that is unknown."""
    words = torch.tensor([VOCABULARY.ids(one.words) for one in drawn])
    starts = torch.full((len(drawn), 1), SPECIAL[SOS])
    return torch.cat([starts, words[:, :-1]], 1), words.masked_fill(words == VOCABULARY.names.index(UNK), -100)


def told(drawn: list[Drawn]) -> Tensor:
    """Where the word read was said one period before, so that the next is known: boolean, (B, LONGEST)."""
    first = torch.tensor([one.opening + one.period + 1 for one in drawn])
    return torch.arange(LONGEST) >= first.unsqueeze(1)
