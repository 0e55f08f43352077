"""A reader of kustomizations as far as this repository's go: resources, components, namespace, labels, images.

CI has no kubectl; where there is one, test_kubernetes.py holds this reader to it.
"""

from pathlib import Path
from typing import Any, Final

import yaml

CLUSTERED: Final = ("Namespace", "ClusterRole", "ClusterRoleBinding")
"""Kinds that are in no namespace."""
_KNOWN: Final = {"apiVersion", "kind", "resources", "components", "namespace", "labels", "images"}


def built(folder: Path) -> list[dict[str, Any]]:
    """The manifests that `kubectl kustomize` would print, in the order of the files; ValueError for what this reader does not know."""
    told = yaml.safe_load((folder / "kustomization.yaml").read_text())
    if unknown := told.keys() - _KNOWN:
        raise ValueError(f"{folder}: this reader does not know {sorted(unknown)}")
    found: list[dict[str, Any]] = []
    for name in (*told.get("resources", ()), *told.get("components", ())):
        path = folder / name
        found += built(path) if path.is_dir() else [one for one in yaml.safe_load_all(path.read_text()) if one is not None]
    for manifest in found:
        about = manifest["metadata"]
        if "namespace" in told and manifest["kind"] not in CLUSTERED:
            about["namespace"] = told["namespace"]
        for label in told.get("labels", ()):
            about.setdefault("labels", {}).update(label["pairs"])
        for container in containers(manifest):
            for image in told.get("images", ()):
                if container["image"] == image["name"]:
                    container["image"] = f"{image.get('newName', image['name'])}:{image['newTag']}"
    return found


def pod(manifest: dict[str, Any]) -> dict[str, Any]:
    """The pod of a workload; empty for what runs nothing."""
    found: dict[str, Any] = manifest.get("spec", {}).get("template", {}).get("spec", {})
    return found


def containers(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """All of a workload, those that run first among them."""
    spec = pod(manifest)
    return [*spec.get("initContainers", ()), *spec.get("containers", ())]
