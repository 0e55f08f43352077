"""The container recipe and the DaemonSet, read as text: no container engine runs here."""

import argparse
import gzip
import json
import re
from typing import Any

import jsonschema  # type: ignore[import-untyped] # it has no types of its own
import pytest
import yaml

from cli import agent
from tests.deploy.conftest import ROOT

HERE = ROOT / "deploy" / "agent"
# Kubernetes' API as strict JSON schema, from PyPI's kubernetes-validate 1.37.0 (Apache-2.0), cut to what a DaemonSet refers to:
# https://github.com/willthames/kubernetes-validate
SCHEMA = ROOT / "tests" / "deploy" / "schemas" / "kubernetes-1.37-daemonset.json.gz"


def wrong(daemonset: dict[str, Any]) -> list[str]:
    """Where Kubernetes 1.37 would not take it, unknown fields included."""
    schema = json.loads(gzip.decompress(SCHEMA.read_bytes()))
    return [error.json_path for error in jsonschema.Draft202012Validator(schema).iter_errors(daemonset)]


def test_kubernetes_takes_the_daemonset() -> None:
    """Each field is one of the API's, of its kind."""
    assert wrong(yaml.safe_load((HERE / "daemonset.yaml").read_text())) == []


@pytest.mark.parametrize(
    ("right", "broken"),
    [
        ("automountServiceAccountToken: false", "automountServiceAccountTokens: false"),
        ("terminationGracePeriodSeconds: 5", "terminationGracePeriodSeconds: soon"),
        ("name: NODE\n", "key: NODE\n"),
    ],
)
def test_what_kubernetes_does_not_take_is_seen(right: str, broken: str) -> None:
    """A misspelt field, a value of another kind, a field that is missing."""
    text = (HERE / "daemonset.yaml").read_text()

    assert right in text
    assert wrong(yaml.safe_load(text.replace(right, broken))) != []


def test_the_daemonset_starts_the_agent_with_flags_that_it_has() -> None:
    """Every argument is understood, and what the agent needs of the node is mounted."""
    daemonset = yaml.safe_load((HERE / "daemonset.yaml").read_text())
    pod = daemonset["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    parser = argparse.ArgumentParser()
    agent.arguments(parser)
    options = parser.parse_args(container["args"])
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}

    assert daemonset["spec"]["selector"]["matchLabels"] == daemonset["spec"]["template"]["metadata"]["labels"]
    assert pod["hostPID"] is True
    assert options.server.startswith("wss://")
    assert mounts[str(options.spool)] == "spool"
    assert str(options.token_file).startswith("/tokens/")
    assert set(mounts.values()) == {volume["name"] for volume in pod["volumes"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_the_image_copies_what_is_built() -> None:
    """The file's name is `make agent`'s, and the entry point runs it."""
    recipe = (HERE / "Dockerfile").read_text()
    copied = re.search(r"^COPY (\S+) (\S+)$", recipe, re.M)

    assert copied
    assert copied[1] == "dist/fettle-agent.pyz"
    assert f'"-I", "{copied[2]}"]' in recipe
