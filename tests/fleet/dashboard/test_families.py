"""The page of a job family, and what leads there."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from fleet.findings.lifecycle import Place, report
from fleet.inventory.models import Node
from fleet.slow.power import learn
from tests.fleet.rows import found, gpu, node
from tests.fleet.slow.past import run
from tests.fleet.slow.test_power import hours

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def text(client: Client, path: str) -> str:
    """The page without tags, spaces made one."""
    answer = client.get(path)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


def runs(home: Node, steps: list[float], **more: Any) -> None:
    """A run a day of these step times, on another driver where they are slow."""
    for number, step in enumerate(steps, start=1):
        begun = timezone.now() - (len(steps) - number) * DAY - DAY / 24
        told = {"driver": "590" if step > 0.55 else "580"}
        values = {"job": f"n1/ann/train-8{number:04}.py", "step_time_s": step, "told": told, **more}
        run(home, begun, begun + DAY / 24, **values)


def noisy(level: float, count: int) -> list[float]:
    """Step times within a percent."""
    return [level * (1 + 0.005 * (number * 7 % 5 - 2)) for number in range(count)]


def test_a_regression_is_shown_with_its_first_run_and_what_changed(viewer: Client) -> None:
    """Marked in the chart, and said in words."""
    runs(node(), noisy(0.5, 16) + noisy(0.6, 5))
    page = text(viewer, "/families/ann/train.py/")
    html = viewer.get("/families/ann/train.py/").content.decode()
    figure = json.loads(re.findall(r'<script id="figure-1" type="application/json">(.*?)</script>', html)[0])

    assert "1 × NVIDIA H200 21 runs" in page
    assert "From n1/ann/train-80017.py on, begun" in page
    assert "500 ms before, 600 ms since. Changed with it: driver 580 → 590." in page.replace("\N{NO-BREAK SPACE}", " ").replace(
        "\u202f", " "
    )
    assert len(figure["data"][0]["y"]) == 21
    assert [one["text"] for one in figure["layout"]["annotations"]] == ["+20%"]
    assert figure["layout"]["shapes"][0]["x0"] == figure["data"][0]["x"][16]


def test_runs_on_other_numbers_of_gpus_stand_apart(viewer: Client) -> None:
    """Each with its own runs; too few of them are no baseline."""
    home = node()
    runs(home, noisy(0.5, 5))
    runs(home, [0.1, 0.1], gpus=8)
    page = text(viewer, "/families/ann/train.py/")

    assert "1 × NVIDIA H200 5 runs" in page
    assert "8 × NVIDIA H200 2 runs" in page
    assert page.count("Too few runs that are alike for a baseline") == 1


def test_the_chart_shows_what_is_compared(viewer: Client) -> None:
    """A step of 50 samples in 0.5 s is one of 55 in 0.55: earlier runs stand at the newest one's batch."""
    runs(node(), [0.5] * 5)
    run(
        Node.objects.get(),
        timezone.now() - DAY / 24,
        timezone.now(),
        job="n1/ann/train-80009.py",
        step_time_s=0.55,
        samples_per_s=100.0,
    )
    html = viewer.get("/families/ann/train.py/").content.decode()
    figure = json.loads(re.findall(r'<script id="figure-1" type="application/json">(.*?)</script>', html)[0])

    assert figure["data"][0]["y"] == pytest.approx([0.55] * 6)
    assert figure["data"][1]["y"] == pytest.approx([0.55] * 2)


def test_the_newest_run_alone_is_said(viewer: Client) -> None:
    """It is no level yet."""
    runs(node(), [*noisy(0.5, 8), 0.7])

    assert "The newest run is worse than usual: n1/ann/train-80009.py" in text(viewer, "/families/ann/train.py/")


def test_a_family_without_runs_is_not_there(viewer: Client) -> None:
    """404; nobody who is not logged in sees any."""
    runs(node(), [0.5])

    assert viewer.get("/families/ann/other.py/").status_code == 404
    assert Client().get("/families/ann/train.py/").status_code == 302


def test_names_cannot_break_the_page(viewer: Client) -> None:
    """Whatever people call their programs."""
    runs(node(), noisy(0.5, 5), job="n1/ann/</script><b>", program="ann/</script><b>")
    html = viewer.get("/families/ann/%3C/script%3E%3Cb%3E/").content.decode()

    assert "<b>" not in html
    assert "&lt;/script&gt;" in html


def test_the_finding_of_a_job_leads_to_its_family(viewer: Client) -> None:
    """Where a run of it is known."""
    home = node()
    runs(home, [0.5])
    known = report(timezone.now(), found("n1/ann/train-80001.py", scope="job"), Place(home.pk, ()))
    strange = report(timezone.now(), found("n1/ann/other.py", scope="job"), Place(home.pk, ()))

    assert 'href="/families/ann/train.py/"' in viewer.get(f"/findings/{known.pk}/").content.decode()
    assert "/families/" not in viewer.get(f"/findings/{strange.pk}/").content.decode()


def test_a_card_shows_what_its_model_draws_here(viewer: Client) -> None:
    """With how many GPUs and days that rests on; nothing where they are too few."""
    card = gpu(node())
    before = text(viewer, f"/gpus/{card.pk}/")
    for ago in (2, 1, 0):
        learn(timezone.now() - ago * DAY, hours({1: (75.0, 600.0), 2: (78.0, 640.0), 3: (90.0, 700.0)}))
    page = text(viewer, f"/gpus/{card.pk}/").replace("\N{NO-BREAK SPACE}", " ").replace("\u202f", " ")

    assert "Idle power here" not in before
    assert "Idle power here 78 W median of this model; GPUs: 3, days: 3" in page
    assert "Busy power here 640 W median of this model; GPUs: 3, days: 3" in page
