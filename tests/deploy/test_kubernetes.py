"""The manifests of deploy/kubernetes: taken by the API's own schema, of one piece, and of no more rights than they use."""

import argparse
import importlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from cli import agent
from tests.deploy.compose_file import final_environment
from tests.deploy.conftest import ROOT
from tests.deploy.kubernetes_schema import wrong
from tests.deploy.kustomization import CLUSTERED, built, containers, pod

HERE: Final = ROOT / "deploy" / "kubernetes"
FOLDERS: Final = ("base", "hints")


@pytest.fixture(scope="module")
def manifests() -> list[dict[str, Any]]:
    """Of the base and the component."""
    return [one for folder in FOLDERS for one in built(HERE / folder)]


def of(manifests: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """One of them."""
    (found,) = (one for one in manifests if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return found


def workloads(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that run something."""
    return [one for one in manifests if pod(one)]


def secret_names(spec: dict[str, Any]) -> dict[str, str]:
    """Of a pod: the mounted Secrets, by the volume's name."""
    return {volume["name"]: volume["secret"]["secretName"] for volume in spec.get("volumes", ()) if "secret" in volume}


def test_kubernetes_takes_every_manifest(manifests: list[dict[str, Any]]) -> None:
    """Each field is one of API 1.37's, of its kind."""
    assert len(manifests) > 20
    assert [place for one in manifests for place in wrong(one)] == []


@pytest.mark.parametrize(
    ("file", "right", "broken"),
    [
        ("agent.yaml", "automountServiceAccountToken: false\n---", "automountServiceAccountTokens: false\n---"),
        ("agent.yaml", "terminationGracePeriodSeconds: 5", "terminationGracePeriodSeconds: soon"),
        ("agent.yaml", "name: NODE\n", "key: NODE\n"),
        ("web.yaml", "readinessProbe:", "readyProbe:"),
        ("postgres.yaml", "serviceName: fettle-postgres", "service: fettle-postgres"),
    ],
)
def test_what_kubernetes_does_not_take_is_seen(file: str, right: str, broken: str) -> None:
    """A misspelt field, a value of another kind, a field that is missing."""
    text = (HERE / "base" / file).read_text()

    assert right in text
    assert [place for one in yaml.safe_load_all(text.replace(right, broken, 1)) for place in wrong(one)] != []


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl here")
@pytest.mark.parametrize("folder", ["base"])
def test_kubectl_reads_the_kustomization_as_the_tests_do(folder: str) -> None:
    """What is tested is what would be applied."""
    ran = subprocess.run(["kubectl", "kustomize", str(HERE / folder)], capture_output=True, text=True, check=True, timeout=60)
    ours = {(one["kind"], one["metadata"]["name"]): one for one in built(HERE / folder)}

    assert {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(ran.stdout)} == ours


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl here")
def test_the_overlay_of_the_how_to_can_be_built(tmp_path: Path) -> None:
    """With the site's images, name and cluster, and the hints."""
    text = (ROOT / "docs" / "how-to" / "kubernetes.md").read_text()
    overlay = text.partition("```yaml\n")[2].partition("```")[0].replace("REGISTRY", "registry.example").replace("TAG", "v1")
    (tmp_path / "site").mkdir()
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    (tmp_path / "site" / "kustomization.yaml").write_text(overlay)
    command = ["kubectl", "kustomize", str(tmp_path / "site"), "--load-restrictor", "LoadRestrictionsNone"]
    made = list(yaml.safe_load_all(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout))
    images = {container["image"] for one in made for container in containers(one)}

    assert [place for one in made for place in wrong(one)] == []
    assert {"registry.example/fettle:v1", "registry.example/fettle-agent:v1"} <= images
    assert of(made, "ConfigMap", "fettle-agent")["data"] == {"server": "wss://fettle.example/ws/agent/", "cluster": "west"}
    assert of(made, "Deployment", "fettle-hints")["metadata"]["namespace"] == "fettle"


def test_the_agent_starts_with_flags_that_it_has(manifests: list[dict[str, Any]]) -> None:
    """Every argument is understood, and what the agent needs of the node is mounted where the argument says."""
    daemonset = of(manifests, "DaemonSet", "fettle-agent")
    spec = pod(daemonset)
    (container,) = spec["containers"]
    parser = argparse.ArgumentParser()
    agent.arguments(parser)
    options = parser.parse_args(container["args"])
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    names = set(re.findall(r"\$\((\w+)\)", " ".join(container["args"])))

    assert spec["hostPID"] is True
    assert mounts[str(options.spool)]["name"] == "spool"
    assert str(options.token_file).startswith("/tokens/")
    assert mounts[str(Path(options.pod_resources).parent)]["readOnly"] is True
    assert paths["pod-resources"] == "/var/lib/kubelet/pod-resources"
    assert names <= {variable["name"] for variable in container["env"]}


def test_the_agent_has_no_rights_in_the_cluster_and_few_on_the_node(manifests: list[dict[str, Any]]) -> None:
    """No token of an account, nothing bound to it; one capability, a root that cannot be written."""
    spec = pod(of(manifests, "DaemonSet", "fettle-agent"))
    (container,) = spec["containers"]
    bound = [one for one in manifests if one["kind"].endswith("Binding") and "fettle-agent" in json.dumps(one["subjects"])]

    assert bound == []
    assert spec["automountServiceAccountToken"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_PTRACE"]}
    assert "privileged" not in container["securityContext"]
    assert "hostNetwork" not in spec
    assert [mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")] == ["spool", "reports", "tmp"]


def test_whoever_has_rights_uses_them(manifests: list[dict[str, Any]]) -> None:
    """The hints list nodes and patch them, and do nothing else; nobody else is given anything."""
    (role,) = (one for one in manifests if one["kind"].endswith("Role"))
    (binding,) = (one for one in manifests if one["kind"].endswith("RoleBinding"))
    asked = set(re.findall(r"self\._api\.(\w+)\(", (ROOT / "agents" / "kubernetes" / "rounds.py").read_text()))

    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "patch"]}]
    assert asked == {"get", "patch"}  # the get of a list is the verb list
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "fettle-hints", "namespace": "fettle"}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    for one in workloads(manifests):
        if one["metadata"]["name"] != "fettle-hints":
            assert pod(one)["automountServiceAccountToken"] is False, one["metadata"]["name"]


def test_every_container_is_closed_bounded_and_watched(manifests: list[dict[str, Any]]) -> None:
    """No capability but the agent's one, a root to read, memory that ends; what serves or works says how it fares."""
    for one in workloads(manifests):
        name = one["metadata"]["name"]
        for container in containers(one):
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True, name
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["capabilities"]["drop"] == ["ALL"], name
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys(), name
            assert "memory" in container["resources"]["limits"], name
            assert {mount["name"] for mount in container.get("volumeMounts", ())} <= {
                *(volume["name"] for volume in pod(one)["volumes"]),
                *(claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", ())),
            }, name
        if name not in ("fettle-agent", "fettle-hints"):
            assert all("livenessProbe" in container for container in pod(one)["containers"]), name
        if name != "fettle-agent":
            assert pod(one)["securityContext"]["runAsNonRoot"] is True, name


def test_names_that_refer_to_something_find_it(manifests: list[dict[str, Any]]) -> None:
    """Selectors, services, settings, accounts, ports, and the namespace."""
    names = {
        kind: {one["metadata"]["name"] for one in manifests if one["kind"] == kind} for kind in {one["kind"] for one in manifests}
    }
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in workloads(manifests)]
    for one in workloads(manifests):
        assert one["spec"]["selector"]["matchLabels"].items() <= one["spec"]["template"]["metadata"]["labels"].items()
        assert pod(one).get("serviceAccountName", "default") in {*names["ServiceAccount"], "default"}
        for container in containers(one):
            for source in container.get("envFrom", ()):
                assert source["configMapRef"]["name"] in names["ConfigMap"]
            ports = {port["name"] for port in container.get("ports", ())}
            for probe in (value for key, value in container.items() if key.endswith("Probe")):
                assert probe.get("httpGet", {}).get("port", "-") in {*ports, "-"}
    for service in (one for one in manifests if one["kind"] == "Service"):
        assert any(service["spec"]["selector"].items() <= found.items() for found in labels), service["metadata"]["name"]
    for one in manifests:
        assert one["kind"] in CLUSTERED or one["metadata"]["namespace"] == "fettle"
    hosts = set(re.findall(r"[@/](fettle-[a-z]+):\d+", json.dumps(of(manifests, "ConfigMap", "fettle")["data"])))
    assert hosts == names["Service"] - {"fettle-web"}


def test_the_settings_are_settings(manifests: list[dict[str, Any]]) -> None:
    """Every FETTLE_ variable is in the reference: a misspelt one would stop the start. No password stands in them."""
    known = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "reference" / "settings.md").read_text(), re.M))
    settings = of(manifests, "ConfigMap", "fettle")["data"]
    given = {*settings, *final_environment(ROOT / "deploy" / "server" / "Dockerfile"), "FETTLE_ALIVE_FILE"}

    assert {name for name in given if name.startswith("FETTLE_")} - known == {"FETTLE_SECRET_KEY_FILE"}
    assert not any(re.search(r"(PASSWORD|SECRET|TOKEN)(?!.*_FILE)", name) for name in settings)


def test_the_secrets_are_those_that_are_made(manifests: list[dict[str, Any]]) -> None:
    """By deploy/server/make-secrets.sh, and the two that the how-to makes; none is in the manifests."""
    made = set(re.findall(r"for name in ([\w ]+); do", (ROOT / "deploy" / "server" / "make-secrets.sh").read_text())[0].split())
    read = set(re.findall(r"/run/secrets/fettle/(\w+)", json.dumps(manifests)))
    used = {name for one in workloads(manifests) for name in secret_names(pod(one)).values()}

    assert read == made
    assert used == {"fettle-secrets", "fettle-agent-tokens", "fettle-hints"}
    assert not any(one["kind"] == "Secret" for one in manifests)


def test_the_programs_are_those_of_the_compose_file(manifests: list[dict[str, Any]]) -> None:
    """The same commands with the same images, so that one test of what they do holds for both."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for name in ("web", "worker", "messenger", "beat"):
        (container,) = pod(of(manifests, "Deployment", f"fettle-{name}"))["containers"]
        assert container["command"] == services[name]["command"], name
    for kind, name in (("StatefulSet", "postgres"), ("Deployment", "valkey"), ("StatefulSet", "victoriametrics")):
        (container,) = pod(of(manifests, kind, f"fettle-{name}"))["containers"]
        assert container["image"] == services[name]["image"], name
    beat = of(manifests, "Deployment", "fettle-beat")
    assert (beat["spec"]["replicas"], beat["spec"]["strategy"]) == (1, {"type": "Recreate"})
    assert pod(beat)["initContainers"][0]["command"] == services["migrate"]["command"]


def test_the_hints_start_with_flags_that_they_have(manifests: list[dict[str, Any]]) -> None:
    """Nothing is cordoned unless somebody adds it."""
    (container,) = pod(of(manifests, "Deployment", "fettle-hints"))["containers"]
    verb = importlib.import_module("cli.kubernetes")
    parser = argparse.ArgumentParser()
    verb.arguments(parser)
    options = parser.parse_args(container["args"][1:])

    assert container["args"][0] == "kubernetes"
    assert (options.what, options.cordon, options.once) == ("hints", False, False)
    assert str(options.token_file) == "/token/api_token"
