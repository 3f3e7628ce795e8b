"""The command `generate`: a prompt in, the answer as it is written out, and pictures of both."""

import json
import sys
from argparse import ArgumentParser, Namespace, _ActionsContainer
from collections.abc import Callable
from typing import Any

from attnviz.cli import typed


def add(command: ArgumentParser) -> None:
    """Options of the command."""
    writing = command.add_argument_group("how it writes")
    writing.add_argument("--max-new-tokens", type=typed.count, default=64, metavar="N", help="tokens, at most (64)")
    warmth = "draw each token, from logits divided by this; 0 takes the most probable one (0)"
    writing.add_argument("--sampling-temperature", type=float, default=0.0, metavar="T", help=warmth)
    share = "draw from the most probable tokens that have this share together (1)"
    writing.add_argument("--top-p", type=float, default=1.0, metavar="P", help=share)
    writing.add_argument("--sampling-seed", type=int, default=0, metavar="N", help="of what is drawn (0)")
    _add_chat(writing)


def add_answer(command: ArgumentParser) -> None:
    """Options of a command that shows an answer which is there already."""
    answer = command.add_argument_group("an answer behind the text, as links hold it")
    ids = "ids of its tokens, such as 12-5-7"
    answer.add_argument("--continued", type=typed.ids, default=(), metavar="IDS", help=ids)
    _add_chat(answer)


def _add_chat(options: _ActionsContainer) -> None:
    chat = "the text is what a user says: in the tokens of the model's chat template"
    options.add_argument("--chat", action="store_true", help=chat)
    options.add_argument("--system", default="", metavar="TEXT", help="with --chat: what the system says")


def run(options: Namespace, out: Callable[[str], None], note: Callable[[str], None]) -> int:
    """Write the answer to stdout as it comes; with edits the answer without them, too, and where they differ.

    Raises:
        AttnvizError: if the model cannot continue the text, or the options do not fit it.
    """
    from attnviz import figures
    from attnviz.cli import commands, values
    from attnviz.core.edits import Edits
    from attnviz.core.errors import InputError
    from attnviz.generation import Generated, WritingProgress, generate

    request, source = values.read(options)
    if (count := len(request.texts)) != 1:
        raise InputError(f"An answer continues one text; there are {count}. Leave out --lines.")

    def written(edits: Edits, show: Callable[[WritingProgress], None]) -> Generated:
        names = {name: getattr(options, name) for name in ("max_new_tokens", "sampling_temperature", "top_p")}
        return generate(request.prompt, source, edits=edits, seed=options.sampling_seed, report=show, **names)

    length = 0

    def stream(progress: WritingProgress) -> None:
        nonlocal length
        if not options.json:
            sys.stdout.write(progress.text[length:])
            sys.stdout.flush()
        length = len(progress.text)

    generated = written(request.edits, stream)
    if options.json:
        out(json.dumps(_json(generated), indent=1))
    else:
        out("")
    count = len(generated.ids)
    if count > values.SILENT * generated.per_second:
        note(f"{count} tokens, {generated.per_second:.3g} a second.")
    if request.edits != Edits():
        before = written(Edits(), lambda progress: None)
        place = generated.first_difference(before)
        where = "the same" if place is None else f"another one from token {place - generated.prompt + 1} on"
        note(f"Without the changes the answer is {where}:{before.answer}")
    if options.output:
        arguments = {"sentence": 0, "dark": options.dark}
        figure = figures.head(generated.record, values.site(options, source), values.head(options, source), **arguments)
        for line in commands.write(figure, options):
            out(line)
    return 0


def _json(generated: Any) -> dict[str, Any]:
    """Prompt, answer, and each of its tokens with its probability and the most probable ones."""
    tokens = []
    for position, token in enumerate(generated.tokens, generated.prompt):
        choices = [
            {"id": id, "text": text, "probability": share} for id, text, share in generated.alternatives(position)
        ]
        tokens.append({"position": position, "id": token.id, "text": token.text, "alternatives": choices})
    prompt = generated.sentence.text[: generated.begins]
    return {"prompt": prompt, "answer": generated.answer, "ended": generated.ended, "tokens": tokens}
