"""The stories that models are trained and measured on, and the words they are made of."""

import random
from collections.abc import Iterator

from attnviz.training.story import words as w
from attnviz.training.story.told import Story
from attnviz.training.story.writer import Writer


def stories(draw: random.Random, *, held_out: bool) -> Iterator[Story]:
    """Stories without end; all of them held out, or none. Python promises `draw.random` the same in every version."""
    while True:
        story = Writer(draw.random).story()
        if story is not None and story.held_out == held_out:
            yield story


def vocabulary() -> tuple[str, ...]:
    """Every word that a story may hold, sorted."""
    nouns = {noun.word for noun in (*w.NAMES, *w.NOUNS, *w.PLACES)}
    groups = (*w.MOVES.values(), *w.OWN_MOVES.values(), *w.DEEDS.values())
    verbs = [verb for group in groups for verb in group] + [w.BE, w.HAVE, w.LOSE, w.FIND, w.GIVE, w.MEET, w.GO]
    forms = {form for verb in verbs for form in (verb.many, verb.one, verb.past, verb.past_many) if form}
    told = [*w.QUALITIES.values(), *w.ADJECTIVES.values(), w.PRONOUNS, w.ADVERBS]
    told += [w.POSSESSIVES.values(), w.REFLEXIVES.values()]
    told += [w.STANDING, *w.WHERE.values(), *map(str.split, w.JOINS)]
    small = {preposition for preposition, *_ in w.BELONGING.values()}
    small |= set("a an the and that then to down home with mirror .".split())
    return tuple(sorted(nouns | forms | small | {word for group in told for word in group}))
