"""The check of a batch: what a collator hands to a model, before any model is run."""

import pytest
import torch

from attnviz.check.training_batch import BatchReport, check_batch
from attnviz.core.errors import InputError

IDS = torch.tensor([[5, 6, 7, 0, 0], [5, 6, 7, 8, 9]])
LEFT = torch.tensor([[0, 0, 5, 6, 7], [5, 6, 7, 8, 9]])
PACKED = torch.tensor([[5, 6, 7, 8, 9, 5, 6]])
RESTART = torch.tensor([[0, 1, 2, 0, 1, 2, 3]])
MASK, LEFT_MASK = (IDS != 0).long(), (LEFT != 0).long()


def rules(report: BatchReport, *severities: str) -> list[str]:
    return [finding.rule for finding in report.findings if finding.severity in (severities or ("error", "warning"))]


def positions(mask: torch.Tensor) -> torch.Tensor:
    return (mask.cumsum(-1) - 1).clamp(min=0)


@pytest.mark.parametrize(
    "batch",
    [
        {"input_ids": IDS, "attention_mask": MASK},
        {"input_ids": IDS, "attention_mask": MASK, "labels": IDS.masked_fill(MASK == 0, -100)},
        {"input_ids": LEFT, "attention_mask": LEFT_MASK, "position_ids": positions(LEFT_MASK)},
        {"input_ids": PACKED, "position_ids": RESTART},
        {"input_ids": IDS[1:]},
        {
            "input_ids": torch.tensor([[5, 6, 2, 2], [5, 6, 7, 2]]),
            "attention_mask": torch.tensor([[1, 1, 1, 0], [1] * 4]),
        },
    ],
)
def test_a_right_batch_has_no_finding(batch):
    """Padded at either side, packed, without padding, and where the id of padding also ends a text."""
    report = check_batch(batch)

    assert (rules(report), report.question, report.status()) == ([], "", 0)


@pytest.mark.parametrize(
    ("batch", "rule", "message", "fix"),
    [
        ({"input_ids": IDS, "attention_mask": 1 - MASK}, "inverted", "0 at the tokens", "(input_ids != 0)"),
        ({"input_ids": IDS, "attention_mask": MASK | 1}, "padding", "padding is seen", "(input_ids != 0)"),
        ({"input_ids": IDS}, "padding", "no attention_mask", "(input_ids != 0)"),
        ({"input_ids": LEFT, "attention_mask": LEFT_MASK}, "positions", "count padding as positions", "cumsum"),
        (
            {"input_ids": LEFT, "attention_mask": LEFT_MASK, "position_ids": torch.arange(5).expand(2, 5)},
            "positions",
            "first token has position 2",
            "cumsum",
        ),
        (
            {"input_ids": PACKED, "position_ids": RESTART, "attention_mask": torch.ones(1, 7).long()},
            "documents",
            "the token at 3 sees the document before it",
            "no attention_mask",
        ),
        ({"input_ids": IDS, "attention_mask": MASK, "labels": IDS}, "labels", "of padding", "-100"),
        (
            {"input_ids": IDS[1:], "labels": torch.tensor([[6, 7, 8, 9, -100]])},
            "labels",
            "the next token already",
            "clone()",
        ),
    ],
)
def test_one_fault_is_one_finding(batch, rule, message, fix):
    """With what mends it, and no other error or warning."""
    report = check_batch(batch, pad=0)

    assert rules(report) == [rule]
    assert message in report.findings[0].message
    assert fix in report.findings[0].fix


END = torch.tensor([[5, 6, 2, 2], [5, 6, 7, 2]])
END_MASK = torch.tensor([[1, 1, 1, 0], [1] * 4])
TARGET = torch.tensor([[1, 8, 9], [1, 8, 0]])


def test_an_end_of_text_that_the_loss_does_not_count_is_named():
    """Padding has the id of the end of text and its labels are -100; the fix has the right labels."""
    batch = {"input_ids": END, "attention_mask": END_MASK}
    wrong = check_batch(batch | {"labels": END.masked_fill(END == 2, -100)}, pad=2)
    names = {"input_ids": END, "attention_mask": END_MASK}
    exec(wrong.findings[0].fix.partition(", or pad")[0], {}, names)

    assert rules(wrong) == ["labels"]
    assert wrong.findings[0].cells == ((0, 2), (1, 3))
    assert "never learns to end" in wrong.findings[0].message
    assert rules(check_batch(batch | {"labels": names["labels"]}, pad=2)) == []


def test_a_causal_mask_over_packed_documents_is_named():
    """A (B, 1, n, n) mask, boolean or added, is named; a mask that separates the documents is right."""
    causal, document = torch.ones(7, 7).tril().bool(), torch.tensor([0, 0, 0, 1, 1, 1, 1])
    right = causal & (document[:, None] == document)
    for mask, expected in ((causal, ["documents"]), (right, [])):
        for each in (mask, torch.zeros(7, 7).masked_fill(~mask, -torch.inf)):
            batch = {"input_ids": PACKED, "position_ids": RESTART, "attention_mask": each[None, None]}
            report = check_batch(batch)
            assert (rules(report), report.question) == (expected, "")


def test_documents_that_are_numbered_by_the_mask_have_positions_of_their_own():
    """Beside the warning that not all code reads such a mask."""
    numbers = torch.tensor([[1, 1, 1, 2, 2, 2, 0]])
    batch = {"input_ids": PACKED, "attention_mask": numbers}

    assert rules(check_batch(batch | {"position_ids": RESTART})) == ["documents"]
    report = check_batch(batch | {"position_ids": torch.arange(7)[None]})
    assert rules(report) == ["documents"] * 2
    assert "go on from one to the next" in report.findings[1].message


def test_a_batch_of_an_encoder_decoder_is_checked_in_both():
    """The source and its mask, and what the decoder reads beside its labels."""
    labels = torch.tensor([[8, 9, 2], [8, 2, -100]])
    right = {"input_ids": IDS, "attention_mask": MASK, "decoder_input_ids": TARGET, "labels": labels}

    assert (
        check_batch(right).findings == check_batch({**right, "decoder_attention_mask": (TARGET != 0).long()}).findings
    )
    assert rules(check_batch({name: right[name] for name in ("input_ids", "attention_mask", "labels")})) == []
    assert "and a decoder that reads" in check_batch(right).assumed
    as_long = torch.tensor([[21, 22, 23, 24, 25], [21, 22, 23, 2, -100]])
    assert "and a decoder" in check_batch({"input_ids": IDS, "attention_mask": MASK, "labels": as_long}).assumed
    for changed, rule, message in (
        ({"decoder_input_ids": labels.masked_fill(labels == -100, 0)}, "labels", "the label of their own position"),
        ({"labels": torch.tensor([[8, 2, 0, 0], [8, 9, 5, 2]])}, None, "The labels are"),
        ({"decoder_attention_mask": 1 - (TARGET != 0).long()}, "inverted", "decoder_attention_mask is inverted"),
        ({"attention_mask": MASK | 1}, "padding", "padding is seen"),
    ):
        if rule is None:
            with pytest.raises(InputError, match=message):
                check_batch(right | changed, pad=0)
        else:
            report = check_batch(right | changed, pad=0)
            assert rules(report) == [rule]
            assert message in report.findings[0].message
    (padding,) = check_batch(
        {"input_ids": IDS, "attention_mask": MASK, "labels": torch.tensor([[8, 2, 0, 0]] * 2)}
    ).findings
    assert "2 labels of padding" in padding.message


@pytest.mark.parametrize(
    ("batch", "finding"),
    [
        ({"input_ids": IDS, "attention_mask": 1 - MASK}, "inverted"),
        ({"input_ids": IDS, "attention_mask": MASK | 1}, "padding"),
    ],
)
def test_the_mask_that_a_finding_writes_is_right(batch, finding):
    """The line of torch is run, and its mask has no finding."""
    report = check_batch(batch, pad=0)
    mended = {"input_ids": batch["input_ids"]}
    exec(report.findings[0].fix, {}, mended)

    assert rules(report) == [finding]
    assert rules(check_batch(mended, pad=0)) == []


def test_what_may_be_padding_is_asked():
    """One id often ends a row and no mask says what it is; the answer settles the question."""
    report = check_batch({"input_ids": IDS})

    assert (report.question, report.status()) == ("Is the id 0 padding? Say --pad 0, or --pad none.", 3)
    assert check_batch({"input_ids": IDS}, padded=False).status() == 0
    assert check_batch({"input_ids": IDS}, pad=0).status() == 1


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"labels": IDS}, "The batch has no input_ids; it has 'labels'."),
        ({"input_ids": IDS.float()}, "must be whole numbers (B, n)"),
        ({"input_ids": IDS, "attention_mask": MASK[:, :4]}, "attention_mask are (2, 4), but the input_ids are (2, 5)."),
    ],
)
def test_what_is_no_batch_is_refused(batch, message):
    with pytest.raises(InputError) as error:
        check_batch(batch)
    assert message in str(error.value)
