"""Serving engines, processes in words, and a GPU's health on their pages."""

from datetime import timedelta

import polars as pl
import pytest
from django.test import Client
from django.utils import timezone, translation

from fleet.dashboard import health, labels, readings, words
from fleet.inventory.models import Absence, Engine, Process
from fleet.store.series import store
from tests.fleet.dashboard.fleet_rows import make_node, write_engine, write_gpus, write_labels, write_process
from wire.labels import ENGINES, LABELS

pytestmark = pytest.mark.django_db
EVIL = "<script>alert(1)</script>"


def cells_of(viewer: Client) -> list[dict[str, tuple[float | None, str]]]:
    """Value and reason of each cell, by metric, of each engine on the page of node n."""
    rows = viewer.get("/nodes/n/").context["engines"]
    return [{cell.metric: (cell.value, cell.reason) for cell in row["cells"]} for row in rows]


def test_the_node_page_shows_its_engines(viewer: Client) -> None:
    """What each is, how many requests it has, how full its cache is, how fast it answers."""
    write_engine(make_node("n", 1))
    (cells,) = cells_of(viewer)
    page = viewer.get("/nodes/n/").content.decode()

    assert {name: value for name, (value, _) in cells.items()} == {
        "requests_running": 31, "requests_waiting": 4, "kv_cache_used": 0.62, "generation_tokens_per_s": 1200.0,
        "ttft_mean_s": 0.153, "ttft_p95_s": 1.24,
    }  # fmt: skip
    for text in ("vLLM", "http://127.0.0.1:8000", "Qwen/Qwen3-32B", "62\u00a0%", "1,200", "153\u00a0ms", "1.24\u00a0s", ">4711<"):
        assert text in page, text


def test_a_node_without_engines_has_no_table_of_them(viewer: Client) -> None:
    """Most nodes serve nothing; one that was there last week is history."""
    old = write_engine(make_node("n", 1))
    Engine.objects.filter(pk=old.pk).update(last_seen_at=timezone.now() - timedelta(days=7))

    assert 'id="engines"' not in viewer.get("/nodes/n/").content.decode()


def test_what_an_engine_does_not_tell_is_absent_with_its_reason(viewer: Client) -> None:
    """One that does not answer, one of another make, one that has just begun: none is shown as idle."""
    node = make_node("n", 1)
    write_engine(node, "http://h:1", 0, kv_cache_used=None)
    dead = Engine.objects.create(
        node=node, name="http://h:2", kind="triton", first_seen_at=timezone.now(), last_seen_at=timezone.now()
    )
    store().write("engine", pl.DataFrame({"entity": [dead.pk], "ts": [int(timezone.now().timestamp())]}))
    Engine.objects.create(node=node, name="http://h:3", kind="sglang", first_seen_at=timezone.now(), last_seen_at=timezone.now())
    begun, silent, gone = cells_of(viewer)

    assert begun["kv_cache_used"] == (None, "this engine does not tell it")
    assert begun["generation_tokens_per_s"] == (None, "needs an earlier sample")
    assert set(silent.values()) == {(None, "the engine does not answer")}
    assert set(gone.values()) == {(None, "no sample in the last 30 seconds")}
    assert 'tabindex="0" title="the engine does not answer">–' in viewer.get("/nodes/n/").content.decode()


def test_nothing_of_a_silent_nodes_engines_is_shown_as_true_now(viewer: Client) -> None:
    """Its last rows are history."""
    write_engine(make_node("n", 1, seen_s_ago=31))

    assert set(cells_of(viewer)[0].values()) == {(None, "no sample in the last 30 seconds")}


@pytest.mark.parametrize(
    ("points", "per_s"),
    [
        ([], None),
        ([(0, 5.0)], None),
        ([(0, 5.0), (10, 5.0)], None),
        ([(0, 5.0), (30, 5.0)], 0.0),
        ([(at, at * 7.0) for at in range(60)], 7.0),
        ([(at, at // 15 * 1500.0) for at in range(8, 58)], 100.0),
        ([(at, 0.0 if at < 20 else 600.0) for at in range(61)], 10.0),
        ([(at, 9000.0 if at < 30 else (at - 30) * 5.0) for at in range(60)], 5.0),
        ([(0, 100.0), (1, 200.0), (2, 300.0), (60, 300.0)], pytest.approx(200 / 60)),
    ],
    ids=["none", "one", "soon", "still", "steady", "steps", "one-step", "began-anew", "stopped"],
)
def test_a_counters_rate(points: list[tuple[int, float]], per_s: float | None) -> None:
    """From step to step where it is asked every 15 s; unknown is not zero; a restarted engine generated nothing negative."""
    assert readings.rate(points) == per_s


def test_a_process_is_shown_with_its_words(viewer: Client) -> None:
    """Job, pod, container, engine and versions at a glance; flags and variables as they were written, one click away."""
    node = make_node("n", 1)
    write_process(list(node.gpus.all()), 4711)
    write_labels(
        node, 4711,
        {"slurm_job": "81234", "slurm_step": "0", "container": "4f5e6d7c8b9a" + "0" * 52, "pod": "uid-1", "pod_name": "llm-0", "engine": "vllm",
         "visible_gpus": node.gpus.get().uuid[:12], "torch": "2.9.1", "cuda": "13.0", "env.NCCL_DEBUG": "INFO", "flag.max-num-seqs": "256", "flag.enforce-eager": ""},
    )  # fmt: skip
    page = viewer.get("/nodes/n/").content.decode()
    row = page.split('id="processes-title"')[1].split("</section>")[0]

    for text in ("Slurm job <b>81234.0</b>", "container <b>4f5e6d7c8b9a</b>", 'title="uid-1">pod <b>llm-0</b>', "engine <b>vLLM</b>",
                 ">may use <b>GPU 0</b>", "PyTorch <b>2.9.1</b>", "CUDA <b>13.0</b>", "3 flags and variables", "<code>NCCL_DEBUG=INFO</code>",
                 "<code>--max-num-seqs 256</code>", "<code>--enforce-eager</code>"):  # fmt: skip
        assert text in row, text


@pytest.mark.parametrize(
    ("may_use", "shown"),
    [
        ("all", "all GPUs"),
        ("none", "no GPU"),
        ("GPU-bb,GPU-aa", "GPU 1, GPU 0"),
        ("GPU-aa,MIG-cc,GPU-", "GPU 0, MIG-cc, GPU-"),
        ("?0,?2", "number 0 as CUDA counts, number 2 as CUDA counts"),
    ],
)
def test_gpus_that_a_process_may_use_are_those_of_the_node(may_use: str, shown: str) -> None:
    """By their number on this page; one that the page does not have, or that is unclear, keeps what was told."""
    told = labels.described({"visible_gpus": may_use}, {"GPU-aa-1": 0, "GPU-bb-2": 1})

    assert told.words == (labels.Word("may use", shown, may_use),)


def test_words_of_a_process_that_ended_are_not_its_successors(viewer: Client) -> None:
    """The pid is the same; nothing was told of the new one."""
    node = make_node("n", 1)
    write_process(list(node.gpus.all()), 4711)
    write_labels(node, 4711, {"slurm_job": "1"})
    Process.objects.update(last_seen_at=timezone.now() - timedelta(minutes=5))

    (process,) = viewer.get("/nodes/n/").context["processes"]
    assert process["told"] == labels.Described()


def test_every_label_and_engine_has_a_word() -> None:
    """None reaches a reader as a key; one that is new is shown by it."""
    assert set(words.LABEL) == set(LABELS)
    assert set(words.ENGINE_KIND) == set(ENGINES)
    assert labels.described({"brand_new": "x"}).words == (labels.Word("brand_new", "x"),)
    assert labels.described({"told.layers": "32"}).settings == ("layers: 32",)


def test_names_of_engines_and_labels_are_escaped(viewer: Client) -> None:
    """All of them are words of others."""
    node = make_node("n", 1)
    write_engine(node, "http://h/" + EVIL, model=EVIL, kind=EVIL[:20])
    write_process(list(node.gpus.all()), 4711)
    write_labels(node, 4711, dict.fromkeys((*LABELS, "env.NCCL_DEBUG", "flag.model", EVIL), EVIL))
    page = viewer.get("/nodes/n/").content.decode()

    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert") > 10


def test_engines_and_processes_cost_no_query_each(viewer: Client, django_assert_max_num_queries: object) -> None:
    """As many for twenty as for one."""
    node = make_node("n", 1)
    for number in range(20):
        write_engine(node, f"http://h:{number}", 1)
        write_process(list(node.gpus.all()), number)
        write_labels(node, number, {"slurm_job": "1"})

    with django_assert_max_num_queries(3 + 17):  # type: ignore[operator]
        assert len(viewer.get("/nodes/n/").context["engines"]) == 20


def test_a_gpus_health_says_what_the_driver_counts(viewer: Client) -> None:
    """What asks for action comes first and in words; none is zero because it was not read."""
    node = make_node("n", 1)
    gpu = node.gpus.get()
    write_gpus([gpu], 1, recovery_action=1, remap_pending=1, remap_failed=0, ecc_uncorrected_volatile_total=3)
    Absence.objects.create(node=node, gpu=gpu, metric="ecc_corrected_volatile_total", reason="unsupported", since=timezone.now())
    facts = viewer.get(f"/gpus/{gpu.pk}/").context["health"]
    told = {fact.label: (fact.text, fact.reason, fact.speaks) for fact in facts}

    assert [fact.label for fact in facts[:3]] == ["Recovery action", "Row remap failed", "Row remap pending"]
    assert told["Recovery action"] == ("reset the GPU", "", True)
    assert told["Row remap failed"] == ("no", "", False)
    assert told["Row remap pending"] == ("yes", "", True)
    assert told["Uncorrected ECC errors since driver load"] == ("3", "", True)
    assert told["Corrected ECC errors since driver load"] == ("–", "this device, driver or mode cannot answer", False)
    assert told["XID errors"] == ("–", "not measured", False)
    page = viewer.get(f"/gpus/{gpu.pk}/").content.decode()
    assert '<dd class="speaks">reset the GPU</dd>' in page
    assert 'tabindex="0" title="this device, driver or mode cannot answer">–' in page


def test_a_silent_gpus_health_is_unknown(viewer: Client) -> None:
    """That it was well before it fell silent says little."""
    gpu = make_node("n", 1, seen_s_ago=300).gpus.get()
    write_gpus([gpu], 1, recovery_action=0)
    facts = viewer.get(f"/gpus/{gpu.pk}/").context["health"]

    assert {(fact.text, fact.reason) for fact in facts} == {("–", "no sample in the last 30 seconds")}


def test_a_mig_instance_names_its_profile_and_its_gpu(viewer: Client) -> None:
    """The node's page tells it from a whole GPU; its own leads to the card. A GPU that is no instance says nothing of it."""
    whole, instance, lost = make_node("n", 3).gpus.all()
    for one, parent in ((instance, whole.uuid), (lost, "GPU-gone")):
        type(one).objects.filter(pk=one.pk).update(
            parent_uuid=parent, mig_profile="1g.18gb", mig_gpu_instance=7, mig_compute_instance=0
        )
    page = viewer.get(f"/gpus/{instance.pk}/").content.decode()

    assert viewer.get("/nodes/n/").content.decode().count('<span class="tag">MIG 1g.18gb</span>') == 2
    assert "GI 7, CI 0" in page
    assert f'<a href="/gpus/{whole.pk}/">{whole.uuid}</a>' in page
    assert "GPU-gone</dd>" in viewer.get(f"/gpus/{lost.pk}/").content.decode()
    assert "MIG instance" not in viewer.get(f"/gpus/{whole.pk}/").content.decode()


def test_memory_that_is_one_with_the_hosts_and_accounts_of_processes_are_told(viewer: Client) -> None:
    """Whoever has memory of its own reads nothing of it."""
    own, unified = make_node("n", 2).gpus.all()
    type(own).objects.filter(pk=own.pk).update(memory_kind="own")
    type(own).objects.filter(pk=unified.pk).update(memory_kind="unified", accounting_mode=True)
    page = viewer.get(f"/gpus/{unified.pk}/").content.decode()

    assert "one with the host&#x27;s" in page or "one with the host's" in page
    assert "<dt>Accounts of processes</dt><dd>on</dd>" in page
    other = viewer.get(f"/gpus/{own.pk}/").content.decode()
    assert "one with the host" not in other
    assert "<dt>Accounts of processes</dt><dd>–</dd>" in other


def test_power_that_is_not_the_plain_case_says_what_it_is(viewer: Client) -> None:
    """V14: a superchip's limit and energy are not the GPU's own; older cards tell an instant. A plain card says neither."""
    plain, module, instant = make_node("n", 3).gpus.all()
    for gpu, scope, average in ((plain, "gpu", 1.0), (module, "module", 1.0), (instant, "gpu", 0.0)):
        type(gpu).objects.filter(pk=gpu.pk).update(power_scope=scope, power_average_s=average)
    pages = [viewer.get(f"/gpus/{gpu.pk}/").content.decode() for gpu in (plain, module, instant)]

    assert ["shared with the CPU" in page for page in pages] == [False, True, False]
    assert ["<dd>of an instant" in page for page in pages] == [False, False, True]


def test_a_card_that_does_not_tell_its_links_asks_to_be_reported(viewer: Client) -> None:
    """What is judged by an assumed peak or by none says so; a card that tells, one whose generation is known and a slice do not."""
    told, untold, known, unknown, slice_of = make_node("n", 5).gpus.all()
    links = {"pcie_link_gen_max": 5, "nvlink_links": 18, "nvlink_bytes_per_s_per_link": 26.562e9, "compute_capability": "9.0"}
    silent = links | {"nvlink_bytes_per_s_per_link": None}
    for gpu, facts in (
        (told, links),
        (untold, {"pcie_link_gen_max": None}),
        (known, silent | {"compute_capability": "10.0"}),
        (unknown, silent | {"compute_capability": "13.0"}),
        (slice_of, {"pcie_link_gen_max": None, "nvlink_links": None, "parent_uuid": told.uuid}),
    ):
        type(gpu).objects.filter(pk=gpu.pk).update(**facts)
    pages = [viewer.get(f"/gpus/{gpu.pk}/").content.decode() for gpu in (told, untold, known, unknown, slice_of)]

    assert ["Please report the model" in page for page in pages] == [False, True, False, True, False]
    assert ["their traffic is not judged" in page for page in pages] == [False, False, False, True, False]
    assert ["as published of its generation" in page for page in pages] == [False, False, True, False, False]
    assert "18 × 50.0\xa0GB/s" in pages[2]


def test_health_is_of_errors_alone() -> None:
    """Energy and link widths grow and fall on a card that is well."""
    assert {"recovery_action", "remap_failed", "ecc_uncorrected_aggregate_total", "xid_errors_total"} <= set(health.SHOWN)
    assert not {"energy_j_total", "pcie_link_gen", "pcie_link_width", "pstate"} & {*health.SHOWN, *health.MORE}


def test_all_of_it_is_there_in_chinese(viewer: Client) -> None:
    """Heads, words and reasons."""
    node = make_node("n", 1)
    write_engine(node, requests_waiting=None)
    write_process(list(node.gpus.all()), 4711)
    write_labels(node, 4711, {"slurm_job": "1", "launcher": "torchrun", "flag.model": "m"})
    with translation.override("zh-hans"):
        page = viewer.get("/nodes/n/", headers={"accept-language": "zh-hans"}).content.decode()

    for english in ("Serving engines", "KV cache", "this engine does not tell it", "Slurm job", "started by", "flag or variable"):
        assert english not in page, english
