"""Rounds of `fettle kubernetes hints`: read the cluster's nodes and Fettle's word on them, write what changed."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from agents.kubernetes.hints import Seen, Told, patches, seen, sentence, told
from agents.kubernetes.rest import Rest, RestError
from wire.sentence import Sentence, _

log = logging.getLogger(__name__)

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod has its account's token, and the authority of the cluster's API."""
SELECTOR: Final = "nvidia.com/gpu.present=true"
_PAGE: Final = 500
_NAMES: Final = 75
"""Nodes in one question to Fettle, which takes 20,000 characters of them: a name has 253 at most."""
PATIENCE: Final = 3
"""Rounds in which Fettle may not answer before nodes are `unknown`: what is stale is never well."""
_SILENT: Final = Told("unknown", ("Fettle's server does not answer.",))


def cluster(url: str | None, account: Path = ACCOUNT) -> Rest:
    """The API server: of this pod's cluster, or at `url` (`kubectl proxy` serves one that asks for no token)."""
    if url is not None:
        return Rest(url, None, None)
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise RestError(
            Sentence(
                _("this is no pod of a cluster: give the API server with --api, as http://127.0.0.1:8001 of `kubectl proxy`.")
            )
        )
    return Rest(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", account / "token", account / "ca.crt")


class Rounds:
    """`tell` takes a line for each node that changes."""

    def __init__(
        self, api: Rest, fettle: Rest, tell: Callable[[str], None], *, cordons: bool, share: float = 0.1, selector: str = SELECTOR
    ) -> None:
        self._api = api
        self._fettle = fettle
        self._tell = tell
        self._cordons = cordons
        self._share = share
        self._selector = selector
        self._silent = 0

    def round(self, *, dry: bool = False) -> int:
        """How many nodes could not be written; RestError where the cluster's API does not answer, or Fettle's does not for now."""
        nodes = list(self._nodes())
        try:
            health = self._health([node.name for node in nodes])
            self._silent = 0
        except RestError as error:
            self._silent += 1
            if self._silent < PATIENCE:
                raise
            log.warning("%s Nodes are unknown until it does.", error)
            health = dict.fromkeys((node.name for node in nodes), _SILENT)
        failed = 0
        for name, patch in patches(nodes, health, cordons=self._cordons, share=self._share).items():
            if not dry:
                try:
                    self._api.patch(f"/api/v1/nodes/{name}", patch)
                except RestError as error:
                    failed += error.status != 409  # somebody changed it meanwhile: the next round looks again
                    log.warning("%s", error)
                    continue
            self._tell(sentence(name, patch))
        return failed

    def _nodes(self) -> Iterator[Seen]:
        query = {"limit": str(_PAGE), **({"labelSelector": self._selector} if self._selector else {})}
        while True:
            page = self._api.get("/api/v1/nodes", query)
            yield from map(seen, page["items"])
            if not (more := page["metadata"].get("continue")):
                return
            query["continue"] = more

    def _health(self, names: Sequence[str]) -> dict[str, Told]:
        found: dict[str, Told] = {}
        for start in range(0, len(names), _NAMES):
            query = {"nodes": ",".join(names[start : start + _NAMES]), "page_size": str(_NAMES)}
            answer = self._fettle.get("/api/v1/health/", query)
            found.update((row["name"], told(row)) for row in answer["results"])
        return found
