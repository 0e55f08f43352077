"""The container recipe and the DaemonSet, read as text: no container engine runs here."""

import argparse
import re

import yaml

from cli import agent
from tests.deploy.conftest import ROOT

HERE = ROOT / "deploy" / "agent"


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
