"""Whether Kubernetes 1.37, or KEDA 2.16, would take a manifest, by their own schemas."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema  # type: ignore[import-untyped] # it has no types of its own

HERE: Final = Path(__file__).parent / "schemas"
# Kubernetes' API as strict JSON schema, from PyPI's kubernetes-validate 1.37.0 (Apache-2.0), cut to the kinds that stand in the manifests:
# https://github.com/willthames/kubernetes-validate
KUBERNETES: Final = HERE / "kubernetes-1.37.json.gz"
# KEDA 2.16's ScaledObject as JSON schema, made of the models of PyPI's cloudcoil-models-keda 2.16.1.0 (Apache-2.0), which are made of its
# CRD; fields that the CRD does not have are refused: https://github.com/cloudcoil/models
KEDA: Final = HERE / "keda-2.16-scaledobject.json.gz"


@cache
def _of(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return found


def wrong(manifest: dict[str, Any]) -> list[str]:
    """Where it would not be taken, unknown fields included; a kind that is in neither schema is wrong as a whole."""
    name = f"{manifest.get('apiVersion')}/{manifest.get('kind')}"
    if name == "keda.sh/v1alpha1/ScaledObject":
        schema = _of(KEDA)
    else:
        kinds = _of(KUBERNETES)["kinds"]
        if name not in kinds:
            return [name]
        schema = {"$ref": f"#/$defs/{kinds[name]}", "$defs": _of(KUBERNETES)["$defs"]}
    return [f"{name}: {error.json_path}" for error in jsonschema.Draft202012Validator(schema).iter_errors(manifest)]
