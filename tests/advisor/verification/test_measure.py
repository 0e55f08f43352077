"""Which measure a rule is verified by."""

import pytest

from advisor.rule import load
from advisor.verification.measure import OWN, own, tensor_weight


def test_every_measure_that_a_rule_names_is_one() -> None:
    """Or "none"."""
    assert {rule.measure for rule in load()} - {None, "none"} <= set(OWN)


@pytest.mark.parametrize(
    ("rule", "measure"),
    [
        ("fp32-without-tensor-cores", "arithmetic"),
        ("dataloader-too-few-workers", "busy"),
        ("power-cap-limited", "sm_clock_mhz"),
        ("batch-underfills-gpu", "sm_active"),
        ("decode-bandwidth-bound", None),
        ("gpu-memory-leak", None),
        ("serving-queue-growth", "queue_mean_s"),
    ],
)
def test_a_rules_own_measure_is_what_its_bottleneck_holds_back(rule: str, measure: str | None) -> None:
    """Of memory bandwidth and of health there is none."""
    found = own(next(one for one in load() if one.id == rule))

    assert (found and found.id) == measure


def test_tensor_cores_weigh_as_the_card_says() -> None:
    """Powers of two by the cycle: 16 on Hopper, 4 on an L4; 16 where nobody knows the card."""
    assert tensor_weight("NVIDIA H200") == 16
    assert tensor_weight("NVIDIA L4") == 4
    assert tensor_weight("a card of tomorrow") == 16
