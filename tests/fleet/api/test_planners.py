"""`/api/v1/planners/`: what planners take, what they plan, and how they refuse."""

import json
from typing import Any

import pytest
from rest_framework.test import APIClient

from advisor.planners.planner import Planner, load
from fleet.accounts.models import User
from tests.fleet.planner_vectors import VECTORS
from tests.fleet.rows import gpu, node

URL = "/api/v1/planners/"
pytestmark = pytest.mark.django_db
STALL = {"gpus": 1024, "stall_s": 60}


@pytest.fixture
def reader() -> APIClient:
    """Somebody who is known."""
    client = APIClient()
    client.force_authenticate(User(username="reader"))
    return client


def planned(client: APIClient, planner: str, inputs: object, **headers: str) -> dict[str, Any]:
    """The plan, which must come."""
    answer = client.post(f"{URL}{planner}/", inputs, format="json", headers=headers or None)
    assert answer.status_code == 200, answer.content
    plan: dict[str, Any] = answer.json()
    return plan


@pytest.mark.parametrize(("planner", "inputs", "results"), VECTORS)
def test_worked_examples_come_through_the_api(
    planner: str, inputs: dict[str, object], results: dict[str, Any], reader: APIClient
) -> None:
    """By who may read, with plain numbers under names that bear their unit; what was not given is null."""
    plan = planned(reader, planner, inputs)
    values = {line["name"]: line["value"] for line in plan["results"]}

    assert plan["planner"] == planner
    for name, value in results.items():
        assert values[name] == (value if isinstance(value, str | bool) else pytest.approx(value, rel=0.005)), name
    assert {name: plan["input"][name] for name in inputs} == inputs
    assert all(line["label"] for line in plan["results"])
    assert all(line["text"] == "" for line in plan["results"] if line["value"] is None)


@pytest.mark.parametrize("planner", load(), ids=lambda planner: planner.name)
def test_a_planner_tells_what_it_takes_and_its_example_can_be_planned(planner: Planner, reader: APIClient) -> None:
    """Kind, unit, bounds, choices; text with a unit is taken as numbers are."""
    told = reader.get(f"{URL}{planner.name}/").json()
    inputs = {one["name"]: one for one in told["inputs"]}

    assert told in reader.get(URL).json()
    assert (told["id"], told["title"]) == (planner.name, planner.title)
    assert list(inputs) == [one.name for one in planner.accepted]
    for one in planner.accepted:
        assert inputs[one.name]["kind"] in ("number", "whole", "choice", "words", "flag")
        assert (inputs[one.name]["minimum"] is None) == (inputs[one.name]["unit"] == "")
    assert planned(reader, planner.name, told["example"])["lines"]


def test_a_plan_says_what_to_be_careful_of_what_a_card_told_and_what_it_rests_on(reader: APIClient) -> None:
    """In sentences, beside the numbers."""
    plan = planned(reader, "training-memory", {"parameters": "7B", "card": "h100-sxm"})

    assert plan["warnings"][0].startswith("It does not fit with a margin")
    assert plan["notes"][0] == "By the card table, H100 SXM: Memory of the GPU 79.65 GiB."
    assert plan["notes"][1] == "The memory is what drivers tell of such a card; the vendor's figure is 74.51 GiB."
    assert len(plan["notes"]) > 3
    assert "Fits, and leaves a margin: no" in plan["lines"]
    assert "Memory needed: 110.5 GiB" in plan["lines"]


def test_what_people_read_comes_in_the_language_that_is_asked_for(reader: APIClient) -> None:
    """Names and numbers stay."""
    english = planned(reader, "compatibility", {"torch": "2.14", "driver": "535.104.05"})
    chinese = planned(reader, "compatibility", {"torch": "2.14", "driver": "535.104.05"}, **{"Accept-Language": "zh-hans"})

    assert [line["name"] for line in chinese["results"]] == [line["name"] for line in english["results"]]
    for one, other in zip(english["results"], chinese["results"], strict=True):
        assert one["label"] != other["label"]
    assert chinese["warnings"] != english["warnings"]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (-1, "stall_s must be from 1e-06 to 1e+09, not -1."),
        (0, "stall_s must be from 1e-06 to 1e+09, not 0."),
        (1e300, "stall_s must be at most 1e+24, not 1e+300."),
        (10**400, "stall_s must be at most 1e+24, not 1e+300."),
        (float("nan"), "stall_s must be a finite number, not nan."),
        (float("-inf"), "stall_s must be a finite number, not -inf."),
        ("nan", "stall_s must be a finite number, not nan."),
        ("9" * 5000, "stall_s must be a finite number, not inf."),
        ("60 pounds", "stall_s: '60 pounds' is not a number, alone or with one of s, ms, us, µs, min, h, d."),
        ("x" * 100_000, "stall_s: 'xxxx"),
        ("\x00", "stall_s: '\\x00' is not a number"),
        ("", "checkpoint-interval needs stall_s: Time that GPUs wait for a save"),
        (None, "checkpoint-interval needs stall_s: Time that GPUs wait for a save"),
        (True, "stall_s must be a number, not True."),
        ([60], "stall_s must be a number, not [60]."),
        ({"s": 60}, "stall_s must be a number, not {'s': 60}."),
    ],
)
def test_what_cannot_be_is_answered_400_with_a_sentence_at_its_input(value: object, says: str, reader: APIClient) -> None:
    """A problem document, short whatever was sent."""
    body = json.dumps({**STALL, "stall_s": value})
    answer = reader.post(f"{URL}checkpoint-interval/", body, content_type="application/json")

    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    problem = answer.json()
    assert list(problem["errors"]) == ["stall_s"]
    assert problem["errors"]["stall_s"][0].startswith(says)
    assert len(answer.content) < 1000


@pytest.mark.parametrize("planner", load(), ids=lambda planner: planner.name)
def test_no_input_of_any_planner_takes_what_is_no_value_of_it(planner: Planner, reader: APIClient) -> None:
    """400 and the input's name, never an error of ours."""
    for one in planner.accepted:
        bad: tuple[Any, ...] = ([], {}, "\x00", -1e30, 10**400, "1e999", "🦆" * 50)
        for value in bad:
            if one.unit == "words" and not one.choices and isinstance(value, str):
                continue  # any word may be typed; whether it is a version is the planner's to say
            answer = reader.post(f"{URL}{planner.name}/", {**planner.example, one.name: value}, format="json")
            assert answer.status_code == 400, (one.name, value)
            assert one.name in answer.json()["errors"], (one.name, value)


@pytest.mark.parametrize(
    ("planner", "inputs", "says"),
    [
        ("scaling", {"gpus": 8}, "Scaling needs both rates (rate_of_one, rate_of_all) or both times"),
        ("compatibility", {}, "Compatibility needs torch or cuda"),
        ("training-memory", {"parameters": 8e9, "sequence": 8192}, "Activations need sequence, hidden and layers together"),
    ],
)
def test_inputs_that_do_not_go_together_are_told_as_one_sentence(
    planner: str, inputs: dict[str, object], says: str, reader: APIClient
) -> None:
    """It is about several, so it stands under none."""
    answer = reader.post(f"{URL}{planner}/", inputs, format="json")

    assert answer.status_code == 400
    assert answer.json()["detail"].startswith(says)
    assert "errors" not in answer.json()


@pytest.mark.parametrize(
    ("planner", "inputs", "name", "says"),
    [
        ("energy", {"gpus": 8, "hours": 2, "card": "B300 SXM"}, "gpu_power_w", "The card table has no tdp_w of B300 SXM"),
        ("roofline", {"weights_bytes": 1e9, "card": "H100"}, "card", "There is no card 'H100'; did you mean H100 PCIe or H100 SXM?"),
        ("checkpoint-interval", {**STALL, "gups": 1}, "gups", "checkpoint-interval has no gups; did you mean gpus?"),
        ("checkpoint-interval", {**STALL, "": 1}, "", "checkpoint-interval has no ."),
        ("compatibility", {"torch": "2.14", "driver": "x" * 150}, "driver", "driver must be a version such as 580.95.05"),
        ("training-memory", {"parameters": 8e9, "scheme": "fsdp"}, "scheme", "scheme must be one of ddp, zero1, zero2, zero3"),
    ],
)  # fmt: skip
def test_a_refusal_stands_at_the_input_that_it_is_about(
    planner: str, inputs: dict[str, object], name: str, says: str, reader: APIClient
) -> None:
    """Whichever step refused it."""
    answer = reader.post(f"{URL}{planner}/", inputs, format="json")

    assert answer.status_code == 400
    assert answer.json()["errors"][name][0].startswith(says)


def test_the_reason_comes_in_the_language_that_is_asked_for(reader: APIClient) -> None:
    """The name of the input stays what it is; what it is about is translated with the sentence."""
    answer = reader.post(f"{URL}checkpoint-interval/", {"stall_s": -1}, format="json", headers={"Accept-Language": "zh-hans"})
    errors = answer.json()["errors"]

    assert errors["stall_s"] == ["stall_s 必须在 1e-06 到 1e+09 之间，不能是 -1。"]
    assert errors["gpus"][0].startswith("checkpoint-interval 需要 gpus：")
    assert "GPUs of the job" not in errors["gpus"][0]


@pytest.mark.parametrize("body", ["[]", "3", '"x"', "null", "{", "[" * 100_000, '{"gpus": ' + "9" * 100_000 + "}"])
def test_a_body_that_is_no_object_of_inputs_is_refused(body: str, reader: APIClient) -> None:
    """With a sentence, whatever it is."""
    answer = reader.post(f"{URL}checkpoint-interval/", body, content_type="application/json")

    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"


def test_inputs_in_the_address_are_refused(reader: APIClient) -> None:
    """They would be left out in silence."""
    answer = reader.get(f"{URL}checkpoint-interval/?gpus=8")

    assert answer.status_code == 400
    assert "no parameter gpus: send the inputs by POST" in answer.json()["detail"]
    assert reader.get(f"{URL}?x=1").status_code == 400


def test_there_is_no_other_planner(reader: APIClient) -> None:
    """404 with the ones there are."""
    for answer in (reader.get(f"{URL}xyzzy/"), reader.post(f"{URL}xyzzy/", {}, format="json")):
        assert answer.status_code == 404
        assert "there are batch, checkpoint-interval" in answer.json()["detail"]


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["", "batch/"])
def test_planners_are_for_who_is_known(path: str, stranger: APIClient) -> None:
    """As the rest of the API."""
    assert stranger.get(URL + path).status_code == 401
    if path:
        assert stranger.post(URL + path, {"micro_batch": 1}, format="json").status_code == 401


def test_a_token_that_may_only_read_plans_too(bob: APIClient) -> None:
    """A plan changes nothing, though it is asked for by POST."""
    assert planned(bob, "checkpoint-interval", STALL)["results"]


def test_the_memory_of_a_card_is_what_the_sites_own_cards_have(reader: APIClient) -> None:
    """As it stands in the inventory, by the name that the driver tells."""
    gpu(node("n1"), model="NVIDIA H100 80GB HBM3", mem_total_bytes=85_000_000_000)
    plan = planned(reader, "inference-memory", {"parameters": "8B", "layers": 32, "card": "H100 SXM"})

    assert plan["input"]["memory_bytes"] == 85_000_000_000
    assert plan["notes"][1].startswith("The memory is the least that a driver of this site tells of such a card")


def test_what_was_not_given_is_told_as_not_counted(reader: APIClient) -> None:
    """Null in place of a zero, no word of a fit, and a warning with the least that is needed; in the reader's language too."""
    inputs = {"parameters": 8e9, "card": "H200 SXM", "micro_batch": 4}
    plan = planned(reader, "training-memory", inputs)
    values = {line["name"]: line["value"] for line in plan["results"]}
    chinese = planned(reader, "training-memory", inputs, **{"Accept-Language": "zh-hans"})

    assert (values["activation_bytes"], values["logits_bytes"], values["fits"]) == (None, None, None)
    assert values["not_counted"] == [
        "Activations: give sequence, hidden and layers.",
        "Logits: give vocabulary, or fused_cross_entropy.",
    ]
    assert plan["warnings"] == [
        "Whether it fits is unknown without what is not counted: at least 126.2 GiB is needed.",
        "micro_batch changes nothing here: it counts only with sequence.",
    ]
    assert not any(line.startswith("Fits") for line in plan["lines"])
    assert [text for text in chinese["warnings"] if text in plan["warnings"]] == []
