"""The settings of a store on a server: the engine that they make, and what `manage.py check` says of wrong ones."""

from pathlib import Path

import pytest
from django.apps import apps
from django.core import checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from pytest_django import Settings

from fleet.inventory.models import Engine, Gpu, Node
from fleet.store.connect import access, connect, unready
from fleet.store.labels import Labels
from fleet.store.series import StoreError
from fleet.store.victoria import VictoriaSeries
from tests.fleet.store.exporter import prometheus_program
from tests.fleet.store.servers import running, shared_victoria, victoria_program
from tests.serving import free_port

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@pytest.fixture
def victoria(settings: Settings) -> Settings:
    """Settings that name a VictoriaMetrics."""
    settings.FETTLE_STORE = "victoriametrics"
    settings.FETTLE_STORE_URL = shared_victoria()
    return settings


def test_the_settings_make_an_engine_that_answers(victoria: Settings) -> None:
    """With no more than an address: labels from the inventory, the server's own page for its state."""
    engine = connect()

    assert isinstance(engine, VictoriaSeries)
    assert engine.window("gpu", 0, 1).is_empty()
    engine.ready()
    assert unready() is None
    call_command("check", "--fail-level", "ERROR")


def test_a_server_that_is_away_is_told_without_its_address(victoria: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever may ask whether the server is ready learns that it is not; the log says why."""
    victoria.FETTLE_STORE_URL = f"http://127.0.0.1:{free_port()}"

    assert unready() == "VictoriaMetrics cannot be used."
    assert "cannot be reached: Connection refused" in caplog.text


def test_a_prometheus_is_no_victoriametrics(victoria: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It answers queries and tells when it started, and keeps nothing that is written there."""
    with running(prometheus_program(tmp_path)) as program:
        victoria.FETTLE_STORE_URL = program.url
        assert unready() == "VictoriaMetrics cannot be used."
        victoria.FETTLE_STORE = "prometheus-read"
        assert unready() is None
    assert "another program" in caplog.text


def test_a_victoriametrics_that_drops_samples_is_not_ready(victoria: Settings, tmp_path: Path) -> None:
    """With a flag for which no write is made, nothing can be stored."""
    with running(victoria_program(tmp_path, "-dedup.minScrapeInterval=15s")) as program:
        victoria.FETTLE_STORE_URL = program.url
        assert unready() == "VictoriaMetrics cannot be used."


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("FETTLE_STORE_WRITE_URL", "vminsert:8480", "FETTLE_STORE_WRITE_URL is no address"),
        ("FETTLE_STORE_STATUS_URLS", ["http://a:1/metrics", "http://b:x"], "FETTLE_STORE_STATUS_URLS is no address"),
        ("FETTLE_STORE_URL", "http://a b:80", "FETTLE_STORE_URL is no address"),
        ("FETTLE_STORE_URL", "http://a\tb:80", "FETTLE_STORE_URL is no address"),
        ("FETTLE_STORE_WRITE_URL", "http://a:1/x\n", "FETTLE_STORE_WRITE_URL is no address"),
        ("FETTLE_STORE_STATUS_URLS", ["http://a:1/metrics", "http://a\u00a0b:1"], "FETTLE_STORE_STATUS_URLS is no address"),
        ("FETTLE_STORE_STATUS_URLS", ["http://a..b:1"], "FETTLE_STORE_STATUS_URLS is no address"),
        ("FETTLE_STORE_USER", "ann", "belong together"),
        ("FETTLE_STORE_TOKEN_FILE", "/nonexistent/token", "No such file"),
        ("FETTLE_STORE_CA_FILE", "/etc/hostname", "no certificate"),
        ("FETTLE_STORE_HEADERS", ["X-Scope-OrgID"], "no header"),
        ("FETTLE_STORE_FLEET", 'a"b', "no label"),
        ("FETTLE_STORE_SELECTOR", "job", "no list of matchers"),
        ("FETTLE_STORE_SELECTOR", 'job=~"("', "no regular expression: missing"),
        ("FETTLE_STORE_SELECTOR", 'job="a",cluster!~"[a"', "no regular expression: unterminated"),
    ],
)
def test_check_says_which_setting_is_wrong(victoria: Settings, name: str, value: object, word: str) -> None:
    """`manage.py check` fails with a sentence, and the engine is not made."""
    setattr(victoria, name, value)
    with pytest.raises(SystemCheckError, match=word):
        call_command("check")
    with pytest.raises(StoreError, match=word):
        connect()


def test_settings_of_a_server_mean_nothing_to_the_embedded_engine(settings: Settings) -> None:
    """They may stand there while another engine is tried; and a check of another app asks nothing."""
    settings.FETTLE_STORE = "parquet"
    settings.FETTLE_STORE_FLEET = 'a"b'
    call_command("check")
    settings.FETTLE_STORE = "victoriametrics"

    assert checks.run_checks([apps.get_app_config("inventory")]) == []


def test_secrets_come_from_the_first_line_of_their_files(victoria: Settings, tmp_path: Path) -> None:
    """A password with its user, or a token; an empty file is a mistake."""
    secret = tmp_path / "secret"
    secret.write_text("s3cret\nmore\n")
    ca = tmp_path / "ca.pem"
    ca.write_text(CERTIFICATE)
    victoria.FETTLE_STORE_USER, victoria.FETTLE_STORE_PASSWORD_FILE = "ann", str(secret)
    victoria.FETTLE_STORE_HEADERS, victoria.FETTLE_STORE_CA_FILE = ["X-Scope-OrgID: fleet"], str(ca)
    first = access()
    victoria.FETTLE_STORE_USER = victoria.FETTLE_STORE_PASSWORD_FILE = ""
    victoria.FETTLE_STORE_TOKEN_FILE = str(secret)

    assert first.headers == {"X-Scope-OrgID": "fleet", "Authorization": "Basic YW5uOnMzY3JldA=="}
    assert first.ca == ca
    assert access().headers["Authorization"] == "Bearer s3cret"
    secret.write_text("\n")
    with pytest.raises(StoreError, match="is empty"):
        access()


@pytest.mark.django_db
def test_labels_are_those_that_dcgm_exporter_gives() -> None:
    """Of a GPU, of an instance of one, of a machine, of a serving engine; nothing for what the inventory lacks."""
    now = [0.0]
    node = Node.objects.create(name="n1")
    gpu = Gpu.objects.create(node=node, uuid="GPU-a", index=3, model="NVIDIA H200", pci_bus_id="00000000:18:00.0")
    part = Gpu.objects.create(
        node=node, uuid="MIG-b", index=3, model="NVIDIA H200", parent_uuid="GPU-a", mig_profile="1g.18gb", mig_gpu_instance=7
    )
    engine = Engine.objects.create(
        node=node, name="http://127.0.0.1:8000", kind="vllm", first_seen_at="2026-01-01T00:00Z", last_seen_at="2026-01-01T00:00Z"
    )
    labels = Labels(lambda: now[0])

    assert labels("gpu", [gpu.pk])[gpu.pk] == {
        "Hostname": "n1", "UUID": "GPU-a", "gpu": "3", "modelName": "NVIDIA H200", "pci_bus_id": "00000000:18:00.0", "GPU_I_PROFILE": "", "GPU_I_ID": "",
    }  # fmt: skip
    assert labels("process", [part.pk])[part.pk]["UUID"] == "GPU-a"
    assert labels("process", [part.pk])[part.pk]["GPU_I_ID"] == "7"
    assert labels("host", [node.pk])[node.pk] == {"Hostname": "n1"}
    assert labels("engine", [engine.pk])[engine.pk]["kind"] == "vllm"
    assert labels("gpu", [999])[999] == {}
    Node.objects.update(name="n2")
    assert labels("gpu", [gpu.pk])[gpu.pk]["Hostname"] == "n1"
    now[0] = 301.0
    assert labels("gpu", [gpu.pk])[gpu.pk]["Hostname"] == "n2"
