"""Labels of GPUs travel once, and again when they change."""

from agents.told_gpu_labels import ToldGpuLabels, fit
from wire.labels import MAX_LABEL
from wire.messages import GpuLabels


def test_labels_are_told_once_and_when_they_change() -> None:
    """A pod that ended is told as no labels."""
    told = ToldGpuLabels()
    assert told.news([{"pod": "a"}, {}]) == [GpuLabels(0, {"pod": "a"})]
    assert told.news([{"pod": "a"}, {}]) == []
    assert told.news([{}, {"pod": "b"}]) == [GpuLabels(0, {}), GpuLabels(1, {"pod": "b"})]

    assert told.news([]) == []


def test_after_a_loss_all_that_was_told_is_told_again() -> None:
    """What is empty now may be full on the server; what never had labels needs none."""
    told = ToldGpuLabels()
    told.news([{"pod": "a"}, {"pod": "b"}, {}])
    told.reset()
    told.reset()

    assert told.news([{"pod": "a"}, {}, {}]) == [GpuLabels(0, {"pod": "a"}), GpuLabels(1, {})]


def test_values_are_joined_and_cut() -> None:
    """A GPU that many pods share has one label of them all, as long as the server takes."""
    assert fit("pod", {"b", "a"}) == {"pod": "a,b"}
    assert fit("pod", set()) == {}
    assert fit("secret", {"a"}) == {}
    long = fit("pod", {f"pod-{i:03}" for i in range(100)})["pod"]

    assert len(long) == MAX_LABEL
    assert long.endswith("…")
