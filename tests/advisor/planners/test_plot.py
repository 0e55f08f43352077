"""What is drawn of each planner: lines that move, marks that stand on them, the limit."""

import pytest

from advisor.planners import checkpoint_interval, roofline, scaling
from advisor.planners.answer import answer, read
from advisor.planners.planner import Planner, load
from advisor.planners.plot import Drawn, drawn


def picture(name: str, **values: object) -> Drawn:
    """What is drawn for these values."""
    planner = next(one for one in load() if one.name == name)
    said = answer(planner, values)
    made = drawn(planner, said.taken, said.result)
    assert made is not None
    return made


@pytest.mark.parametrize("planner", load(), ids=lambda planner: planner.name)
def test_every_worked_example_is_drawn(planner: Planner) -> None:
    """A plot whose lines have a value or none for each x, the rising values of one input; or a table."""
    values, wrong = read(planner, planner.example)
    said = answer(planner, values)
    made = drawn(planner, said.taken, said.result)

    assert wrong == {}
    if planner.grid:
        assert made is None
        return
    assert made is not None
    assert list(made.xs) == sorted(set(made.xs))
    assert len(made.xs) >= 6
    for line in made.lines:
        assert len(line.values) == len(made.xs)
        assert len(set(line.values)) > 1 or len(made.lines) > 1
    assert all(mark.y is not None for mark in made.marks)


def test_memory_is_stacked_over_the_micro_batch_and_ends_a_little_above_the_card() -> None:
    """The whole is what the planner says for that micro-batch; what the GPU has is the limit."""
    shape = {"parameters": 8.03e9, "scheme": "zero3", "data_parallel": 8, "sequence": 8192, "hidden": 4096, "layers": 32}
    made = picture("training-memory", **shape, memory_bytes=80e9)
    planner = next(one for one in load() if one.name == "training-memory")

    assert made.stacked
    assert made.limit == ("Memory of the GPU", 80e9)
    assert made.xs[:4] == (1, 2, 3, 4)
    assert sum(line.values[2] or 0 for line in made.lines) == pytest.approx(planner.plan({**shape, "micro_batch": 3}).total_bytes)
    assert len(made.xs) == 6
    assert made.marks[0].x == 1


def test_without_a_shape_memory_is_drawn_over_what_moves_it() -> None:
    """The micro-batch changes nothing then: the ranks do, or else the parameters."""
    assert "data-parallel" in picture("training-memory", parameters=8e9, scheme="zero3", data_parallel=8).title
    assert "parameters" in picture("training-memory", parameters=8e9).title


def test_youngs_interval_is_the_lowest_point_of_what_is_drawn() -> None:
    """The mark stands where saving and redone work cost least together."""
    made = picture("checkpoint-interval", gpus=1024, stall_s=60)
    whole = [sum(line.values[at] or 0 for line in made.lines) for at in range(len(made.xs))]
    best = made.marks[0]

    assert best.label == "best"
    assert best.x == pytest.approx(checkpoint_interval.young_s(60, checkpoint_interval.mtbf_s(1024)))
    assert best.y == pytest.approx(min(whole))
    assert made.xs[0] < best.x < made.xs[-1]


def test_an_interval_in_use_is_marked_beside_the_best() -> None:
    """So that one sees what it costs."""
    marks = {mark.label: mark for mark in picture("checkpoint-interval", gpus=1024, stall_s=60, interval_s=30_000).marks}

    assert marks["as planned"].x == 30_000
    assert (marks["as planned"].y or 0) > 2 * (marks["best"].y or 0)


def test_the_roof_is_flat_beyond_the_balance_and_a_tenth_at_a_tenth_of_it() -> None:
    """Below the balance memory is the limit, above it math; one token stands below, a long prompt above."""
    made = picture("roofline", weights_bytes=141.1e9, gpus=8, card="H100 SXM", parameters=70.55e9, prompt_tokens=4096)
    marks = {mark.label: mark for mark in made.marks}
    balance = roofline.balance(989e12, 3.35e12)

    assert marks["balance"].x == pytest.approx(balance)
    assert marks["balance"].y == pytest.approx(8 * 989e12)
    assert marks["one token"].x == pytest.approx(1.0)
    assert marks["one token"].y == pytest.approx(8 * 3.35e12)
    assert marks["prompt"].y == pytest.approx(8 * 989e12)
    assert made.lines[0].values[-1] == pytest.approx(8 * 989e12)


def test_scaling_goes_on_with_the_serial_fraction_that_was_measured() -> None:
    """Through the measured point, and down beyond it."""
    made = picture("scaling", gpus=8, rate_of_one=1000, rate_of_all=7200)
    serial = scaling.karp_flatt(7.2, 8)

    assert made.marks[0].y == pytest.approx(0.9)
    assert made.lines[0].values[-1] == pytest.approx(1 / (1 + serial * (made.xs[-1] - 1)))


def test_utilisation_is_drawn_no_further_than_the_peak() -> None:
    """No GPU goes there."""
    made = picture("model-flops", parameters=8e9, layers=32, heads=32, sequence=8192, peak_flop_per_s=989e12, tokens_per_s=12_000)

    assert max(value for value in made.lines[0].values if value is not None) <= 1


def test_a_bubble_is_drawn_where_there_is_a_pipeline_and_memory_where_it_was_measured() -> None:
    """The first that says something."""
    measured = {"first_batch": 4, "first_peak_bytes": 22e9, "second_batch": 8, "second_peak_bytes": 34e9}

    assert "bubble" in picture("batch", micro_batch=4, accumulation=8, pipeline_parallel=8, **measured).title
    made = picture("batch", micro_batch=4, **measured)
    assert made.lines[0].values[made.xs.index(4)] == pytest.approx(22e9)
    assert "Global batch" in picture("batch", micro_batch=4).title


def test_the_grid_tells_of_every_wheel_what_the_planner_tells_of_it() -> None:
    """A word where there is a wheel, nothing where there is none, and where the plan stands."""
    planner = next(one for one in load() if one.grid)
    assert planner.grid is not None
    grid = planner.grid({"torch": "2.14", "cuda": None, "driver": "535.104.05", "compute_capability": "7.0"})
    cells = {(torch, cuda): word for torch, row in grid.rows for cuda, word in zip(grid.columns, row, strict=True)}

    assert grid.here == ("2.14", "cu130")
    for (torch, cuda), word in cells.items():
        if word:
            told = planner.plan({"torch": torch, "cuda": cuda, "driver": "535.104.05", "compute_capability": "7.0"})
            assert told.verdict == word
    assert cells["2.14", "cu126"] != "fail"
    assert cells["2.14", "cu118"] == ""
