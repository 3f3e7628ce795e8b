"""Faults in the parts of a mask, alone and in pairs: each is named and no other, and its repair is tried."""

import pytest
import torch

from attnviz.check import check
from attnviz.core.errors import InputError


def band(n, before, after):
    """Keys from i - before to i + after, in plain arithmetic."""
    distance = torch.arange(n) - torch.arange(n)[:, None]
    return (distance >= -before) & (distance <= after)


def tokens(batch, n, *, left=False):
    """(B, n): the first sentence has no padding, each other one two tokens fewer than the one before."""
    real = torch.arange(n) < (n - 2 * torch.arange(batch))[:, None]
    return real.flip(1) if left else real


def named(report):
    """Rules of errors and warnings, but for the warning that queries of padding have no key."""
    faults = (finding for finding in report.findings if finding.severity != "note")
    return sorted(finding.rule for finding in faults if (finding.rule, finding.severity) != ("empty-row", "warning"))


def test_masks_of_heads_that_were_made_by_repeat_are_named():
    """(B * H, Q, K) made by repeat: head h of sentence b has the mask of sentence (b * H + h) % B."""
    real = tokens(3, 8)
    right = (band(8, 8, 8) & real[:, None])[:, None].expand(3, 2, 8, 8)
    said = {"convention": "may-attend", "padding": real, "intent": "two-way"}
    report = check(right[:, 0].repeat(2, 1, 1).view(3, 2, 8, 8), **said)

    assert named(report) == ["broadcast"]
    assert torch.equal(report.repaired, right)


def test_a_token_that_no_query_sees_is_a_finding_whatever_the_intent():
    """And padding that tokens see, in one sentence; nothing is said of what is right."""
    real = tokens(2, 6)
    shifted = real.roll(1, 1)
    for said in ({}, {"intent": "two-way"}, {"intent": "causal"}):
        mask = (band(6, 6, 0) if said.get("intent") == "causal" else band(6, 6, 6)) & shifted[:, None, None]
        report = check(mask, convention="may-attend", padding=real, **said)
        assert {(1, 0)} <= {(cell[0], cell[-1]) for one in report.findings for cell in one.cells}
        assert named(report)
    (finding,) = check(band(6, 6, 6) & shifted[:, None, None], convention="may-attend", padding=real).findings

    assert finding.message == "1 key of padding open to tokens and 1 token hidden from every query."
    assert check(real[:, None, None], convention="may-attend", padding=real).findings == ()


@pytest.mark.parametrize("padding", [torch.ones(2, 5), torch.ones(3, 6), torch.ones(1, 2, 6), torch.full((2, 6), 2)])
def test_padding_that_does_not_fit_is_refused(padding):
    with pytest.raises(InputError, match="padding"):
        check(band(6, 6, 0).expand(2, 1, 6, 6), padding=padding)


def test_weights_on_padding_are_an_error():
    """Only for queries that are tokens; nothing reads the rows of padding."""
    real = tokens(2, 6)
    scores = torch.randn(2, 1, 6, 6, generator=torch.Generator().manual_seed(0))

    assert "deviation" in check(scores.softmax(-1), padding=real).rules("error")
    assert check(scores.masked_fill(~real[:, None, None], -torch.inf).softmax(-1), padding=real).ok
