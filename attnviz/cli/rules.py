"""Masks as the shell says them."""

import re
from functools import reduce
from operator import and_, or_

from attnviz.core import masks
from attnviz.core.errors import InputError, did_you_mean, quoted
from attnviz.core.masks import RULES, Mask


def read(text: str) -> Mask:
    """A mask from JSON, or from rules joined by "|", "&" and "~": "causal & documents=3,4 | prefix=3".

    "&" binds closer than "|", and "~", which turns a rule around, closest.

    Raises:
        AttnvizError: names the rules that there are.
    """
    if text.lstrip().startswith("{"):
        return masks.from_json(text)
    if not all(part.strip(" ~") for part in re.split("[&|]", text)):
        raise InputError(f"A rule is missing in the mask {quoted(text)}; write one, such as causal or window=2.")
    return reduce(or_, [reduce(and_, map(_rule, part.split("&"))) for part in text.split("|")])


def forms() -> dict[str, str]:
    """How each rule is written, and what it does; without those whose cells are painted."""
    return {_form(rule): rule.meaning for rule in _sayable().values()}


def _sayable() -> dict[str, type[Mask]]:
    rules = (RULES["full"], *(rule for rule in masks.composable() if rule.parameters()[0].kind != "cells"))
    return {rule.rule: rule for rule in rules}


def _form(rule: type[Mask]) -> str:
    """A rule with its numbers in capitals, and in brackets what may be left out: "window=BEFORE[,AFTER]"."""
    after_a_list, text = False, ""
    for one in rule.parameters():
        said = f"{one.name}=N" if after_a_list else one.name.upper()
        said += ",..." * (one.kind == "numbers")
        text += f"{',' * bool(text)}{said}" if one.required else f"[,{said}]"
        after_a_list |= one.kind == "numbers"
    name = "causal" if rule.rule == "subsequent" else rule.rule
    return f"{name}={text}".replace("=[,", "[=", 1) if text else name


def _rule(text: str) -> Mask:
    """One rule: "window=2,1", "padding=5,3,left=7", "~causal"."""
    if text.strip().startswith("~"):
        return ~_rule(text.strip()[1:])
    name, _, values = text.strip().partition("=")
    name = "subsequent" if name == "causal" else name
    rule, left = _sayable().get(name), [value.strip() for value in values.split(",")] if values else []
    if rule is None or not all(re.fullmatch(r"(\w+ *= *)?-?\d+", value, re.ASCII) for value in left):
        raise _wrong(text, rule)
    given: dict[str, object] = {}
    for key, _, number in (value.rpartition("=") for value in left if "=" in value):
        given[key.strip()] = int(number)
    numbers = [int(value) for value in left if "=" not in value]
    for one in (one for one in rule.parameters() if one.name not in given and numbers):
        given[one.name] = numbers if one.kind == "numbers" else numbers[0]
        numbers = [] if one.kind == "numbers" else numbers[1:]
    if numbers or any(one.required and one.name not in given for one in rule.parameters()):
        raise _wrong(text, rule)
    _check_least(text, rule, given)
    return masks.from_json({"rule": name, **given})


def _check_least(text: str, rule: type[Mask], given: dict[str, object]) -> None:
    """That no number is less than a control offers: a window of -3 keys would block all and say nothing."""
    for one in (one for one in rule.parameters() if one.name in given and one.kind == "number"):
        if (number := given[one.name]) < one.least:
            low = f"{one.name.upper()} is {number}; it must be {one.least} or more"
            raise InputError(f"The mask {quoted(text.strip())} cannot be read: {low}. Write {_form(rule)}.")


def _wrong(text: str, rule: type[Mask] | None) -> InputError:
    """What is there instead: how that rule is written, or all rules."""
    named = quoted(text.strip())
    if rule is not None:
        return InputError(f"The mask {named} cannot be read; write {_form(rule)}, with whole numbers.")
    near = did_you_mean(re.split(r"\W", text.strip())[0], ["causal", *_sayable()])
    return InputError(f"There is no mask {named}.{near} There are: {'; '.join(forms())}; or the JSON of a mask.")
