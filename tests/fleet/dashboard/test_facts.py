"""What a node and a GPU are, on their pages: never blank, the reason where a fact is not told, in the reader's language."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone, translation

from fleet.dashboard import fact_words, facts, words
from fleet.ingest.facts import KIND, NAMES
from fleet.inventory.models import Absence, Engine, Event, Gpu, Node
from tests.fleet.dashboard.fleet_rows import make_node, write_gpus
from wire.labels import GPU_LABELS
from wire.messages import PODS
from wire.metrics import REASONS

pytestmark = pytest.mark.django_db
EVIL = "<script>alert(1)</script>"


def known(**more: Any) -> Node:
    """A node whose facts are told."""
    node = make_node("n", 2)
    told = {
        "cores": 192, "mem_total_bytes": 1 << 40, "cpu_governor": "powersave", "kernel": "6.8.0", "driver_version": "580.159.04",
        "cuda_driver_version": "13.0", "nvidia_module_version": "580.159.04", "numa_distances": {"0": [10, 21], "1": [21, 10]}, "rdma_ready": False,
        "nvidia_parameters": {"EnableMSI": "1", "RmProfilingAdminOnly": "1", "RegistryDwords": ""}, "recording": "",
    }  # fmt: skip
    for name, value in (told | more).items():
        setattr(node, name, value)
    node.save()
    return node


def page(client: Client, path: str) -> str:
    """The HTML of a page that comes."""
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def test_a_node_shows_what_it_is(viewer: Client) -> None:
    """Governor, versions, NUMA, parameters."""
    known()
    html = page(viewer, "/nodes/n/")

    for text in (
        "CPU governor",
        "powersave",
        "NVIDIA kernel module",
        "580.159.04",
        "NUMA nodes",
        "from node 0: 10 21",
        "RmProfilingAdminOnly=1",
    ):
        assert text in html, text


def test_each_fact_that_is_not_told_has_its_reason() -> None:
    """From an agent that says why, from an older one, and in a recording: nothing is blank."""
    empty: dict[str, Any] = {
        "cores": None, "mem_total_bytes": None, "cpu_governor": "", "kernel": "", "driver_version": "", "cuda_driver_version": "",
        "nvidia_module_version": "", "numa_distances": {}, "nvidia_parameters": {},
    }  # fmt: skip
    node = known(**empty, facts_absent={"cpu_governor": "not_permitted", "nvidia_parameters": "not_found"})
    told = {fact.label: fact for fact in facts.of_node(node)}

    assert all(fact.text or fact.reason for fact in told.values())
    assert told["CPU governor"].reason == str(words.REASON["not_permitted"])
    assert told["Module parameters"].reason == str(words.REASON["not_found"])
    assert told["Kernel"].reason == "its agent does not tell it"
    assert told["GPUDirect RDMA"].text == "no"  # which is told, unlike nothing
    node.recording, node.rdma_ready = "leak", None
    assert {fact.reason for fact in facts.of_node(node)} == {str(words.REASON["not_recorded"])}


def test_parameters_of_a_module_that_is_not_loaded_are_not_shown_as_if_it_were() -> None:
    """The row keeps them to be compared; the page says why there are none now."""
    node = known(facts_absent={"nvidia_parameters": "not_found"})

    assert facts.of_node(node)[-1].text == ""
    assert facts.of_node(node)[-1].reason == str(words.REASON["not_found"])


def test_a_gpu_shows_its_numa_node_or_why_not(viewer: Client) -> None:
    """The kernel may know none for it, which is another matter than an agent that does not tell."""
    node = known()
    first, second = node.gpus.all()
    Gpu.objects.filter(pk=first.pk).update(numa_node=1)
    html = page(viewer, f"/gpus/{first.pk}/")
    assert "from node 1: 21 10" in html
    assert "the kernel names no NUMA node for it" in page(viewer, f"/gpus/{second.pk}/")
    node.facts_absent = {"gpu_numa_nodes": "not_permitted"}
    assert facts.of_gpu(second, node).reason == str(words.REASON["not_permitted"])
    node.facts_absent, node.numa_distances = {}, {}

    assert facts.of_gpu(second, node).reason == "its agent does not tell it"


def test_a_gpu_shows_who_uses_it(viewer: Client) -> None:
    """Only where somebody says; an exporter's text stays text."""
    gpu, other = known().gpus.all()
    Gpu.objects.filter(pk=gpu.pk).update(
        labels={"pod": EVIL, "namespace": "ml", "hpc_job": "4711", "mig_profile": "1g.10gb"}, labels_told_at=timezone.now()
    )
    html = page(viewer, f"/gpus/{gpu.pk}/")

    assert "Who uses it" in html
    assert "As dcgm-exporter says" in html
    assert EVIL not in html
    assert "&lt;script&gt;" in html
    assert "4711" in html
    assert "Who uses it" not in page(viewer, f"/gpus/{other.pk}/")


def test_a_node_whose_kubelet_does_not_say_who_has_its_gpus_says_so(viewer: Client) -> None:
    """Among what is absent, with the reason; the pods that were told last stand on their GPU."""
    node = known()
    gpu = node.gpus.first()
    assert gpu is not None
    write_gpus(list(node.gpus.all()))
    Absence.objects.create(node=node, metric=PODS, reason="timeout", since=timezone.now())
    told = {"cluster": "site", "pods": "ml/a,ml/b", "pod": "a,b", "shared": "yes"}
    Gpu.objects.filter(pk=gpu.pk).update(labels=told, labels_told_at=timezone.now())

    assert "Pods that have the GPUs" in page(viewer, "/nodes/n/")
    html = page(viewer, f"/gpus/{gpu.pk}/")
    assert "ml/a,ml/b" in html
    assert "given out in replicas" in html
    assert "As the kubelet says" in html
    Gpu.objects.filter(pk=gpu.pk).update(labels={"pod": "0123-uid"})
    assert "As the cgroups of its processes say" in page(viewer, f"/gpus/{gpu.pk}/")


def test_an_engine_that_says_nothing_says_why(viewer: Client) -> None:
    """In a word of engines, not of drivers."""
    node = known()
    write_gpus(list(node.gpus.all()))
    now = timezone.now()
    engine = Engine.objects.create(
        node=node, name="http://127.0.0.1:8000", kind="vllm", why_silent="timeout", first_seen_at=now, last_seen_at=now
    )
    from fleet.dashboard.engines import _row

    silent = _row(engine, dict.fromkeys(("requests_running", "kv_cache_used")))
    engine.why_silent, engine.absent = "", {"kv_cache_used": "unsupported", "ttft_mean_s": "not_found"}
    lacking = {cell.metric: cell.reason for cell in _row(engine, {"requests_running": 1.0})["cells"]}

    assert silent["why"] == "the engine did not answer in time"
    assert {cell.reason for cell in silent["cells"]} == {"the engine did not answer in time"}
    assert lacking["requests_running"] == ""
    assert lacking["kv_cache_used"] == "this engine does not tell it"
    assert lacking["ttft_mean_s"] == "no request in the interval"


def test_events_show_their_severity_and_changes_in_the_readers_language(viewer: Client) -> None:
    """The server's own events are of the interface."""
    node = known()
    now = timezone.now()
    for seq, (kind, severity, text) in enumerate(
        [
            (KIND, "", "CPU governor: powersave → performance"),
            ("memory", "warn", "The host's memory has an uncorrected error: B1."),
        ]
    ):
        Event.objects.create(node=node, boot="", seq=seq, kind=kind, severity=severity, text=text, observed_at=now)
    html = page(viewer, "/nodes/n/")
    chinese = viewer.get("/nodes/n/", headers={"accept-language": "zh-hans"}).content.decode()

    assert "CPU governor: powersave → performance" in html
    assert '<span class="severity warn">warning</span>' in html
    assert "CPU 调频策略: powersave → performance" in chinese


def test_every_name_of_a_change_has_its_word() -> None:
    """English is the name itself; Chinese is another one, but for what is written alike."""
    texts = [f"{name}{' EnableMSI' if slug == 'nvidia_parameters' else ''}: 1 → 2" for slug, name in NAMES.items()]
    texts += ["12 more facts changed", "nothing of the kind"]
    with translation.override("en"):
        assert [fact_words.changed(text) for text in texts] == texts
    with translation.override("zh-hans"):
        same = [text for text in texts if fact_words.changed(text) == text]

    assert same == ["CUDA: 1 → 2", "GPUDirect RDMA: 1 → 2", "nothing of the kind"]
    with translation.override("zh-hans"):
        assert fact_words.changed("GPUDirect RDMA: yes → –") == f"GPUDirect RDMA: {words.YES} → –" != "GPUDirect RDMA: yes → –"


def test_every_label_and_reason_has_a_word() -> None:
    """None reaches a reader as a slug; none outlives what it names."""
    assert set(fact_words.GPU_LABEL) == set(GPU_LABELS)
    assert set(fact_words.FACT) == {*NAMES, "mem_total_bytes"}
    assert set(fact_words.ENGINE_SILENT) <= set(REASONS)
    assert set(fact_words.ENGINE_ABSENT) <= set(REASONS)
