"""Every page with much, little and broken data."""

import time
from datetime import datetime, timedelta

import polars as pl
import pytest
from django.test import Client
from django.utils import timezone

from fleet.dashboard import charts, readings
from fleet.findings.models import Finding
from fleet.inventory.models import Absence, Event, Gpu, Node, Refusal
from fleet.store.series import store
from tests.fleet.dashboard.fleet_rows import diagnose, make_finding, make_node, write_gpus, write_host, write_process

pytestmark = pytest.mark.django_db
EVIL = "<script>alert(1)</script>"


def text(client: Client, path: str) -> str:
    """The page's HTML, which must come with 200."""
    response = client.get(path)
    assert response.status_code == 200, (path, response.status_code)
    return response.content.decode()


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/fleet.json",
        "/nodes/n/",
        "/gpus/1/",
        "/gpus/1/series.json",
        "/findings/",
        "/findings/1/",
        "/findings/1/evidence.json",
        "/planners/",
        "/planners/batch/",
    ],
)
def test_a_stranger_is_sent_to_the_login(client: Client, path: str) -> None:
    """Nothing of the fleet is shown to who is not logged in, not even whether it exists."""
    response = client.get(path)

    assert response.status_code == 302
    assert response["Location"].startswith("/login/?next=")


@pytest.mark.parametrize(
    "path", ["/nodes/none/", "/gpus/99/", "/gpus/99/series.json", "/findings/99/", "/findings/99/evidence.json"]
)
def test_what_does_not_exist_is_not_found(viewer: Client, path: str) -> None:
    """404, not an error."""
    assert viewer.get(path).status_code == 404


def test_an_empty_fleet_says_so(viewer: Client) -> None:
    """Before the first node there is a page that tells what will happen; no number is made up."""
    page = text(viewer, "/")

    assert "No GPU has reported yet" in page
    assert 'id="map"' not in page
    assert '<dd data-count="power">–</dd>' in page
    assert "sum over 0 of 0 GPUs" in page
    assert "No finding matches." in text(viewer, "/findings/")
    assert viewer.get("/fleet.json").json()["gpus"] == []


def test_the_overview_counts_each_gpu_once(viewer: Client) -> None:
    """Busy, idle, unmeasured and unknown add up to all; the power sum says what it rests on."""
    live, silent = make_node("live", 4), make_node("silent", 2, seen_s_ago=300)
    busy, idle, proxy, blind = live.gpus.all()
    write_gpus([busy], power_w=600.0)
    write_gpus([idle], sm_active=0.0, gpu_util_pct=0, power_w=100.0)
    write_gpus([proxy], sm_active=None, gpu_util_pct=80, power_w=None)
    write_gpus([blind], sm_active=None, gpu_util_pct=None, power_w=50.0)
    write_gpus(list(silent.gpus.all()), power_w=700.0)  # stored before it fell silent: no longer true

    summary = readings.summarise(readings.fleet.snapshot())
    page = text(viewer, "/")

    assert (summary.gpus, summary.busy, summary.idle, summary.unmeasured, summary.stale) == (6, 2, 1, 1, 2)
    assert (summary.power_w, summary.power_from) == (750.0, 3)
    assert "sum over 3 of 6 GPUs" in page
    assert "unknown since" in page


def test_the_map_holds_nulls_for_what_is_absent_and_nothing_of_a_silent_node(viewer: Client) -> None:
    """The first frame of the heat map is columns in the order of its GPUs."""
    live, silent = make_node("a-live", 2), make_node("b-silent", 1, seen_s_ago=300)
    write_gpus(list(live.gpus.all()[:1]), sm_active=0.5, temperature_c=None)
    write_gpus(list(silent.gpus.all()))

    frame = viewer.get("/fleet.json").json()

    assert [node["name"] for node in frame["nodes"]] == ["a-live", "b-silent"]
    assert [node["stale"] for node in frame["nodes"]] == [False, True]
    assert frame["heard"] == [True, False, False]
    assert frame["values"]["sm_active"] == [0.5, None, None]
    assert frame["values"]["temperature_c"] == [None, None, None]


def test_bottlenecks_of_silent_nodes_count_as_unknown(viewer: Client) -> None:
    """What held a GPU back an hour ago says nothing of now."""
    live, silent = make_node("live", 2), make_node("silent", 1, seen_s_ago=3600)
    first, second = live.gpus.all()
    diagnose(first, "data")
    diagnose(silent.gpus.get(), "compute")
    assert second is not None

    spread = viewer.get("/").context["spread"]

    assert {row["slug"]: row["total"] for row in spread} == {"data": 1, "unknown": 2}
    assert sum(row["share"] for row in spread) == pytest.approx(1)


def test_eight_findings_of_one_rule_on_one_node_are_one_line_of_the_overview(viewer: Client) -> None:
    """The strongest findings are different ones."""
    node = make_node("n")
    for gpu in node.gpus.all():
        make_finding(node, [gpu])
    make_finding(node, [node.gpus.all()[0]], rule="memory-nearly-full", severity="critical")

    lines = viewer.get("/").context["strongest"]

    assert [(line.finding.rule, line.total) for line in lines] == [("memory-nearly-full", 1), ("fp32-without-tensor-cores", 8)]


def test_pending_and_resolved_findings_are_not_counted_as_open(viewer: Client) -> None:
    """The overview tells what fires."""
    node = make_node("n", 1)
    gpus = list(node.gpus.all())
    make_finding(node, gpus, condition="pending", target="a")
    make_finding(node, gpus, condition="resolved", resolved_at=timezone.now(), target="b")

    assert {row["slug"]: row["total"] for row in viewer.get("/").context["severities"]} == {
        "critical": 0, "warn": 0, "advice": 0, "info": 0,
    }  # fmt: skip


def test_noisy_findings_are_marked_and_counted_apart(viewer: Client) -> None:
    """What flaps is not what fires: it comes after it, says so, and is in no severity's count."""
    node = make_node("n", 2)
    first, second = node.gpus.all()
    make_finding(node, [first], severity="critical", rule="loud", condition="noisy")
    make_finding(node, [second], severity="warn", rule="still")
    answer = viewer.get("/")
    totals = {row["slug"]: row["total"] for row in answer.context["severities"]}

    assert totals == {"critical": 0, "warn": 1, "advice": 0, "info": 0}
    assert answer.context["noisy"] == 1
    assert [line.finding.rule for line in answer.context["strongest"]] == ["still", "loud"]
    page = answer.content.decode()
    assert page.count('class="finding critical noisy"') == 1
    assert "1 noisy, counted apart" in page
    assert "+ 1 noisy" in page
    assert [(row["findings"], row["noisy"]) for row in answer.context["rows"]] == [(1, 1)]


def test_a_row_of_the_nodes_table_counts_as_its_script_does(viewer: Client) -> None:
    """What no GPU of the node measured is a dash with its reason, not zero; the live frames find the row by its id."""
    blind, silent = make_node("blind", 1), make_node("silent", 1, seen_s_ago=300)
    write_gpus(list(blind.gpus.all()), sm_active=None, gpu_util_pct=None)
    page = text(viewer, "/")

    for node, reason in ((blind, "not measured"), (silent, "no sample in the last 30 seconds")):
        row = page.split(f'data-node="{node.pk}"')[1].split("</tr>")[0]
        assert f'data-value="busy" data-unit="gpus" tabindex="0" title="{reason}">–' in row
    assert "1 more: activity not measured" in page
    assert "1 silent" in page


def test_recordings_are_marked_on_every_page_that_shows_them(viewer: Client) -> None:
    """Nobody may take a recording for a machine."""
    node = make_node("replay-bf16", 1, recording="bf16_train")
    gpu = node.gpus.get()
    write_gpus([gpu])
    finding = make_finding(node, [gpu])

    for path in ("/", "/nodes/replay-bf16/", f"/gpus/{gpu.pk}/", "/findings/", f"/findings/{finding.pk}/"):
        page = text(viewer, path)
        assert 'class="banner"' in page, path
        assert 'class="tag">recording' in page, path


def test_real_machines_carry_no_recording_banner(viewer: Client) -> None:
    """The banner means something."""
    node = make_node("real", 1)

    for path in ("/", "/nodes/real/", f"/gpus/{node.gpus.get().pk}/"):
        assert 'class="banner"' not in text(viewer, path)


def test_the_node_page_shows_gpus_host_processes_events_and_refusals(viewer: Client) -> None:
    """All that is known of a node stands on one page."""
    node = make_node("n", 2)
    gpus = list(node.gpus.all())
    write_gpus(gpus)
    write_host(node)
    write_process(gpus, 4711, "train.py", "ann")
    diagnose(gpus[0], "data")
    Event.objects.create(
        node=node, gpu=gpus[1], boot="b", seq=0, kind="xid", code=79, text="fell off the bus", observed_at=timezone.now()
    )
    Refusal.objects.create(node_name="n", code="too_large", total=12345)
    Refusal.objects.create(node_name="n", code="bad_time", total=6789)
    response = viewer.get("/nodes/n/")
    page = response.content.decode()

    assert "93\u00a0%" in page
    assert "692\u00a0W" in page
    host = {cell.metric: cell.value for cell in response.context["host"]}
    assert host["disk_read_bytes_per_s"] == pytest.approx(1e8)
    assert host["disk_write_bytes_per_s"] == 0
    assert host["net_rx_bytes_per_s"] is None
    (process,) = response.context["processes"]
    assert (process["pid"], process["indices"], process["gpu_mem_bytes"]) == (4711, [0, 1], 60 << 30)
    assert "XID error" in page
    assert "fell off the bus" in page
    assert "12,345" in page
    assert "6,789" in page
    assert "its clock was over a minute ahead of the server" in page  # what was lost, and by what
    assert "further behind than samples are kept" in page


def test_a_gpu_whose_holders_nobody_knows_is_not_free(viewer: Client) -> None:
    """No process is listed since the driver hangs: the page says so, and not that none holds the GPU."""
    node = make_node("n", 2)
    gpus = list(node.gpus.all())
    write_gpus(gpus)
    assert "No process holds a GPU." in text(viewer, "/nodes/n/")
    Absence.objects.create(node=node, gpu=gpus[1], metric="processes", reason="timeout", since=timezone.now())
    page = text(viewer, "/nodes/n/")

    assert "No process holds a GPU." not in page
    assert "GPU 1: the driver did not answer in time" in page
    write_process(gpus[:1], 4711)
    assert "GPU 1: the driver did not answer in time" in text(viewer, "/nodes/n/")


def test_memory_that_one_gpu_does_not_tell_is_no_part_of_a_sum(viewer: Client) -> None:
    """What a process holds of one of two GPUs is not what it holds."""
    gpus = list(make_node("n", 2).gpus.all())
    write_process(gpus[:1], 4711)
    row = {"entity": gpus[1].pk, "pid": 4711, "ts": int(time.time()), "name": "python", "user": "ann", "gpu_mem_bytes": None}
    store().write("process", pl.DataFrame([row], schema_overrides={"gpu_mem_bytes": pl.Float64}))
    (process,) = readings.processes([gpu.pk for gpu in gpus])

    assert process["gpus"] == [gpu.pk for gpu in gpus]
    assert process["gpu_mem_bytes"] is None


def test_absent_values_are_dashes_with_their_reason(viewer: Client) -> None:
    """Absent is not zero, on the node's page and on the GPU's."""
    node = make_node("n", 1)
    gpu = node.gpus.get()
    write_gpus([gpu], sm_active=None, tensor_active=None)
    Absence.objects.create(node=node, gpu=gpu, metric="sm_active", reason="profiler_busy", since=timezone.now())
    Absence.objects.create(node=node, gpu=gpu, metric="power_w", reason="timeout", since=timezone.now(), until=timezone.now())

    for path, key in (("/nodes/n/", "rows"), (f"/gpus/{gpu.pk}/", "now")):
        shown = viewer.get(path).context[key]
        cells = {cell.metric: cell for cell in (shown[0]["cells"] if key == "rows" else shown)}
        assert (cells["sm_active"].value, cells["sm_active"].reason) == (None, "another profiler holds the counters")
        assert cells["tensor_active"].reason == "not measured"
        assert (cells["power_w"].value, cells["power_w"].reason) == (692.0, "")
        page = text(viewer, path)
        assert 'tabindex="0" title="another profiler holds the counters">–' in page  # the keyboard reaches it


def test_a_gpu_with_every_metric_absent_has_pages(viewer: Client) -> None:
    """A card that says nothing is shown as one that says nothing."""
    node = make_node("n", 1, kernel="", driver_version="", cuda_driver_version="", cores=None, mem_total_bytes=None)
    Gpu.objects.update(
        mem_total_bytes=None, power_limit_w=None, power_limit_default_w=None, sm_clock_max_mhz=None, mem_clock_max_mhz=None,
        pcie_link_gen_max=None, pcie_link_width_max=None, nvlink_links=None, nvlink_bytes_per_s_per_link=None,
    )  # fmt: skip
    gpu = node.gpus.get()

    response = viewer.get(f"/gpus/{gpu.pk}/")

    assert all(cell.value is None and cell.reason for cell in response.context["now"])
    assert "Not judged yet." in response.content.decode()
    assert "No process holds a GPU." in text(viewer, "/nodes/n/")
    series = viewer.get(f"/gpus/{gpu.pk}/series.json").json()
    assert all(figure["data"] == [] for figure in series["figures"].values())
    assert len(series["missing"]) == len(charts.GPU_METRICS)


def test_nothing_of_a_silent_node_is_shown_as_true_now(viewer: Client) -> None:
    """Rows that lie in the store from before are history, not state."""
    node = make_node("n", 1, seen_s_ago=31)
    gpu = node.gpus.get()
    write_gpus([gpu])
    write_host(node)
    write_process([gpu], 1)

    for path in ("/nodes/n/", f"/gpus/{gpu.pk}/"):
        page = text(viewer, path)
        assert "unknown since" in page
        assert "692" not in page.replace("1692", "")
        assert "no sample in the last 30 seconds" in page
    assert "Unknown: the node is silent." in text(viewer, "/nodes/n/")


def test_the_bottleneck_of_a_silent_gpu_is_unknown(viewer: Client) -> None:
    """What held it back before it fell silent is history, on the node's page and on its own."""
    node = make_node("n", 1, seen_s_ago=300)
    gpu = node.gpus.get()
    diagnose(gpu, "compute")

    assert 'class="stale unknown"' in text(viewer, "/nodes/n/")
    page = text(viewer, f"/gpus/{gpu.pk}/")
    assert 'class="verdict past"' in page
    assert "what holds it back now is unknown" in page
    assert "no longer of now" in page


def test_a_node_whose_driver_is_not_read_says_why_where_its_gpus_would_stand(viewer: Client) -> None:
    """“Nothing is absent” would be the opposite of the truth."""
    node = make_node("n", 0)
    write_host(node)
    said = {"node": node, "boot": "b", "kind": "driver"}
    Event.objects.create(**said, seq=0, text="The driver answers again.", observed_at=timezone.now() - timedelta(hours=1))
    Event.objects.create(**said, seq=1, text="No GPU is read: the NVIDIA driver is not loaded", observed_at=timezone.now())
    notice = text(viewer, "/nodes/n/").split('class="notice"')[1].split("</div>")[0]

    assert "No GPU is read on this node." in notice
    assert "the NVIDIA driver is not loaded" in notice
    assert "Nothing is absent" not in text(viewer, "/nodes/n/")


def test_a_silent_gpu_does_not_say_that_nothing_is_absent(viewer: Client) -> None:
    """What it could not say when it was last heard of, nobody knows now."""
    gpu = make_node("n", 1, seen_s_ago=300).gpus.get()
    page = text(viewer, f"/gpus/{gpu.pk}/")

    assert "Unknown: the node is silent." in page
    assert "Nothing is absent" not in page


def test_a_node_never_heard_of_has_a_page(viewer: Client) -> None:
    """Enrolled, hello said, nothing stored yet."""
    make_node("n", 0, seen_s_ago=None)

    assert "never heard of" in text(viewer, "/nodes/n/")
    assert "never heard of" in text(viewer, "/")


def test_a_gpu_that_its_agent_no_longer_lists_says_so(viewer: Client) -> None:
    """It stays, with its history, and counts no more."""
    node = make_node("n", 2)
    gone = node.gpus.all()[0]
    write_gpus([gone])
    Gpu.objects.filter(pk=gone.pk).update(present=False)

    assert "no longer listed" in text(viewer, f"/gpus/{gone.pk}/")
    assert "no longer listed" in text(viewer, "/nodes/n/")
    assert viewer.get("/").context["summary"].gpus == 1


def test_names_are_escaped_everywhere(viewer: Client) -> None:
    """A node, a process, an event, a finding: all are words of others."""
    node = make_node(EVIL, 1, kernel=EVIL, recording=EVIL)
    gpu = node.gpus.get()
    Gpu.objects.update(model=EVIL, uuid=EVIL)
    write_gpus([gpu])
    write_process([gpu], 1, EVIL, EVIL)
    Event.objects.create(node=node, gpu=gpu, boot="b", seq=0, kind=EVIL[:20], text=EVIL, observed_at=timezone.now())
    Absence.objects.create(node=node, gpu=gpu, metric=EVIL, reason=EVIL[:30], since=timezone.now())
    Refusal.objects.create(node_name=EVIL, code=EVIL[:30], total=1, last_detail=EVIL)
    evil = {"id": EVIL + " {name}", "params": {"name": EVIL}}
    finding = make_finding(
        node, [gpu], rule=EVIL, bottleneck=EVIL[:20],
        content={
            "title": evil, "summary": evil, "risk": evil, "rollback": evil, "verify": evil, "sources": [EVIL, "javascript:alert(1)"],
            "evidence": [{"name": EVIL, "value": 1, "unit": EVIL}], "change": [{"kind": EVIL, "text": EVIL}],
            "expected_gain": {"low": 1, "high": 2, "basis": evil},
        },
    )  # fmt: skip
    diagnose(gpu, EVIL[:20])

    for path in ("/", node_url(node), f"/gpus/{gpu.pk}/", "/findings/", f"/findings/{finding.pk}/"):
        page = text(viewer, path)
        assert "<script>alert" not in page, path
        assert "&lt;script&gt;" in page, path
        assert 'href="javascript' not in page, path


def node_url(node: Node) -> str:
    """The address that the overview links to."""
    from django.urls import reverse

    return reverse("node", args=[node.name])


def test_a_node_name_with_a_slash_has_a_page(viewer: Client) -> None:
    """Names are the operators' own."""
    node = make_node("rack 7/node 3 ü", 1)

    assert "rack 7/node 3 ü" in text(viewer, node_url(node))
    assert text(viewer, "/")


def test_the_findings_page_filters(viewer: Client) -> None:
    """Each filter alone, and what is unknown finds nothing rather than everything."""
    one, two = make_node("one", 1), make_node("two", 1)
    make_finding(one, list(one.gpus.all()), rule="a-rule", severity="warn")
    make_finding(two, list(two.gpus.all()), rule="b-rule", condition="noisy")
    make_finding(two, list(two.gpus.all()), rule="c-rule", resolved_at=timezone.now(), condition="resolved")

    def found(query: str) -> list[str]:
        return sorted(line.finding.rule for line in viewer.get(f"/findings/{query}").context["lines"])

    assert found("") == ["a-rule", "b-rule"]
    assert found("?state=resolved") == ["c-rule"]
    assert found("?state=all") == ["a-rule", "b-rule", "c-rule"]
    assert found("?state=nonsense") == ["a-rule", "b-rule"]
    assert found("?severity=warn") == ["a-rule"]
    assert found("?rule=b-rule") == ["b-rule"]
    assert found("?node=two") == ["b-rule"]
    assert found("?condition=noisy") == ["b-rule"]
    assert found("?severity=%3Cb%3E") == []
    assert found("?page=99") == ["a-rule", "b-rule"]


def test_many_findings_come_in_pages_that_keep_the_filter(viewer: Client) -> None:
    """Fifty a page."""
    node = make_node("n", 1)
    Finding.objects.bulk_create(
        Finding(
            fingerprint=f"r:gpu:{number}", rule=f"r{number}", severity="warn", severity_rank=2, scope="gpu", target="1", node=node,
            condition="firing", content={}, opened_at=timezone.now(), last_seen_at=timezone.now(),
        )
        for number in range(120)
    )  # fmt: skip

    page = text(viewer, "/findings/?severity=warn&page=2")

    assert "Page 2 of 3" in page
    assert "?severity=warn&amp;page=3" in page


def test_findings_of_one_rule_on_one_node_are_one_row_that_opens(viewer: Client) -> None:
    """Eight rows that differ in the GPU's number alone hide the ninth; each finding stays one click away."""
    node, other = make_node("n"), make_node("other", 1)
    for gpu in node.gpus.all():
        make_finding(node, [gpu])
    make_finding(node, [node.gpus.all()[0]], rule="loud", condition="noisy")
    make_finding(other, list(other.gpus.all()))
    make_finding(None, None, scope="job", target="a/job")
    make_finding(None, None, scope="job", target="b/job")
    answer = viewer.get("/findings/")
    lines = answer.context["lines"]
    page = answer.content.decode()

    told = sorted((line.finding.rule, str(line.finding.node or line.finding.target), line.total) for line in lines)
    one = "fp32-without-tensor-cores"
    assert told == [(one, "a/job", 1), (one, "b/job", 1), (one, "n", 8), (one, "other", 1), ("loud", "n", 1)]
    (many,) = (line for line in lines if line.total == 8)
    assert many.gpus == tuple(range(8))
    assert [member.gpus for member in many.members] == [(index,) for index in range(8)]
    assert page.count("<details") == 1
    assert all(f'href="/findings/{finding.pk}/"' in page for finding in Finding.objects.all())
    assert "12 findings" in page


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("severity=bogus", "Severity “bogus”"),
        ("condition=x&rule=y", "Condition “x”, Rule “y”"),
        ("state=z", "State “z”"),
        ("node=nowhere", "Node “nowhere”"),
    ],
)
def test_a_filter_that_names_nothing_is_called_out(viewer: Client, query: str, told: str) -> None:
    """An empty list would read as: all is well."""
    make_node("quiet", 1)

    assert f"Not understood: {told}." in text(viewer, f"/findings/?{query}")
    assert "Not understood" not in text(viewer, "/findings/?severity=warn&condition=firing&state=all&node=quiet")


def test_one_finding_tells_the_whole_story(viewer: Client) -> None:
    """What, the numbers beside their thresholds, since when, the change, the gain, the risk, undoing, verification, history."""
    node = make_node("n", 1)
    finding = make_finding(node, list(node.gpus.all()))
    page = text(viewer, f"/findings/{finding.pk}/")

    for words in (
        "FP32 pipes are busy 66%", "66\u00a0%", "≥ 30\u00a0%", "torch.autocast", "3–8× the speed", "Measured on an H200", "convergence",
        "Remove the two lines.", "rises above 20%", "firing", "data-copy", f"{finding.opened_at:%Y-%m-%d %H:%M:%S} UTC",
    ):  # fmt: skip
        assert words in page, words
    assert 'href="https://docs.nvidia.com/cuda/"' in page


@pytest.mark.parametrize(
    "content",
    [
        {},
        [],
        {"title": {"id": "{a:.0%} of {b}", "params": {"a": "text"}}},
        {"title": {"id": "{"}, "evidence": [{}], "change": [{}], "sources": None},
        {
            "title": None,
            "evidence": [{"name": "sm_active", "value": None, "unit": "ratio", "threshold": 0.5, "comparison": "<="}],
        },
    ],
)
def test_a_finding_with_missing_or_broken_content_has_pages(viewer: Client, content: object) -> None:
    """Rules change; findings of old versions stay readable."""
    node = make_node("n", 1)
    finding = make_finding(node, list(node.gpus.all()), content=content, bottleneck="")

    assert finding.rule in text(viewer, f"/findings/{finding.pk}/")
    assert text(viewer, "/findings/")
    assert text(viewer, "/")
    assert viewer.get(f"/findings/{finding.pk}/evidence.json").status_code == 200


def test_a_finding_of_no_node_has_pages(viewer: Client) -> None:
    """A job over several nodes, a fleet."""
    finding = make_finding(None, None, scope="job", target="cluster/ann/train")

    assert "cluster/ann/train" in text(viewer, f"/findings/{finding.pk}/")
    assert "cluster/ann/train" in text(viewer, "/")


def test_the_evidence_is_drawn_around_the_opening(viewer: Client) -> None:
    """One figure for each metric of the evidence, one line for each GPU that measured it."""
    node = make_node("n", 2)
    gpus = list(node.gpus.all())
    finding = make_finding(node, gpus, opened_at=timezone.now() - timedelta(minutes=5))
    write_gpus(gpus, 60, tensor_active=0.03, fp32_active=None)

    figures = viewer.get(f"/findings/{finding.pk}/evidence.json").json()["figures"]

    assert [figure["metric"] for figure in figures] == ["fp32_active", "tensor_active"]
    assert figures[0]["figure"]["data"] == []
    assert [line["name"] for line in figures[1]["figure"]["data"]] == ["GPU 0", "GPU 1"]
    assert figures[1]["figure"]["layout"]["annotations"][0]["text"] == "opened"


def test_the_charts_of_the_last_hour_have_gaps_where_nothing_was_stored(viewer: Client) -> None:
    """Two stretches with ten silent minutes between them."""
    node = make_node("n", 1)
    gpu = node.gpus.get()
    now = int(time.time())
    write_gpus([gpu], 600, end=now - 1200, step_s=5)
    write_gpus([gpu], 600, step_s=5)

    answer = viewer.get(f"/gpus/{gpu.pk}/series.json?minutes=60").json()
    values = answer["figures"]["activity"]["data"][0]["y"]

    assert 355 <= len(values) <= 362
    assert values.count(None) == pytest.approx(240, abs=5)
    assert {line["metric"] for line in answer["missing"]} == {"Memory temperature"}


@pytest.mark.parametrize("minutes", ["0", "-1", "9999", "x", "", "1.5", "²"])
def test_an_odd_span_gives_the_hour(viewer: Client, minutes: str) -> None:
    """Whatever stands in the query string, the answer is a chart."""
    node = make_node("n", 1)

    answer = viewer.get(f"/gpus/{node.gpus.get().pk}/series.json", {"minutes": minutes})

    assert answer.status_code == 200
    start, end = answer.json()["figures"]["activity"]["layout"]["xaxis"]["range"]
    assert datetime.fromisoformat(end) - datetime.fromisoformat(start) == timedelta(hours=1)


def test_pages_are_read_only(viewer: Client) -> None:
    """A POST where nothing is written is refused."""
    assert viewer.post("/").status_code == 405
    assert viewer.post("/findings/").status_code == 405
