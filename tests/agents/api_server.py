"""A stub of a cluster's API server and of Fettle's, over HTTP: what `fettle kubernetes` asks of them, as the real ones answer it.

Nodes are listed page by page with a selector; a merge patch (RFC 7396) of a resource version that is not the newest is refused.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

TOKEN: Final = "an-account's-token"


class Servers:
    """Both of them. `nodes` by name, `health` rows by name; `is_silent`: Fettle answers 503; `patched`: names in order."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.health: dict[str, dict[str, Any]] = {}
        self.is_silent = False
        self.patched: list[str] = []
        self.pages = 0
        self.page = 500
        self.before_patch: dict[str, Any] = {}
        """A patch by somebody else that comes just before ours, by node."""
        self.url = ""

    def add(self, name: str, state: str | None = None, *, text: str = "", gpus: bool = True, **spec: Any) -> None:
        """A node, and Fettle's word on it."""
        labels = {"nvidia.com/gpu.present": "true"} if gpus else {}
        self.nodes[name] = {"metadata": {"name": name, "resourceVersion": "1", "labels": labels}, "spec": spec}
        if state is not None:
            self.says(name, state, text)

    def says(self, name: str, state: str, text: str = "") -> None:
        """Fettle's word from now on."""
        reasons = [{"state": state, "rule": "some-rule", "event": None, "text": text, "since": None}] if text else []
        self.health[name] = {"node": 1, "name": name, "state": state, "reasons": reasons, "since": None, "age_s": 1.0}

    def annotations(self, name: str) -> dict[str, str]:
        """Of a node."""
        found: dict[str, str] = self.nodes[name]["metadata"].get("annotations", {})
        return found

    def unschedulable(self) -> list[str]:
        """The nodes that take no pods."""
        return [name for name, node in self.nodes.items() if node["spec"].get("unschedulable")]

    def get(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        """An answer."""
        if path == "/api/v1/health/":
            if self.is_silent:
                return HTTPStatus.SERVICE_UNAVAILABLE, {"detail": "The database does not answer."}
            assert len(query["nodes"]) <= 20_000
            return HTTPStatus.OK, {
                "results": [row for name, row in self.health.items() if name in query["nodes"].split(",")],
                "next": None,
            }
        if path != "/api/v1/nodes":
            return HTTPStatus.NOT_FOUND, _status("no such resource")
        label, _, value = query.get("labelSelector", "").partition("=")
        found = [node for node in self.nodes.values() if not label or node["metadata"]["labels"].get(label) == value]
        start, limit = int(query.get("continue", "0")), min(int(query["limit"]), self.page)
        self.pages += 1
        about = {"resourceVersion": "9", **({"continue": str(start + limit)} if start + limit < len(found) else {})}
        return HTTPStatus.OK, {"kind": "NodeList", "apiVersion": "v1", "metadata": about, "items": found[start : start + limit]}

    def patch(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """An answer."""
        name = path.removeprefix("/api/v1/nodes/")
        node = self.nodes.get(name)
        if node is None:
            return HTTPStatus.NOT_FOUND, _status(f'nodes "{name}" not found')
        if (other := self.before_patch.pop(name, None)) is not None:
            self._merge(node, other)
        version = body.get("metadata", {}).get("resourceVersion", node["metadata"]["resourceVersion"])
        if version != node["metadata"]["resourceVersion"]:
            return HTTPStatus.CONFLICT, _status("the object has been modified")
        self.patched.append(name)
        self._merge(node, body)
        return HTTPStatus.OK, node

    def _merge(self, node: dict[str, Any], body: dict[str, Any]) -> None:
        merged = _merged(node, body)
        merged["metadata"]["resourceVersion"] = str(int(node["metadata"]["resourceVersion"]) + 1)
        node.clear()
        node.update(merged)


def _merged(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = _merged(found.get(name), value)
    return found


def _status(message: str) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message}


@contextmanager
def serving() -> Iterator[Servers]:
    """Both at one address until the block ends; requests without the token are refused."""
    servers = Servers()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            self._answer(*servers.get(parts.path, {name: values[0] for name, values in parse_qs(parts.query).items()}))

        def do_PATCH(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.headers["Content-Type"] != "application/merge-patch+json":
                self._answer(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, _status("no merge patch"))
                return
            self._answer(*servers.patch(self.path, body))

        def _answer(self, status: int, body: Any) -> None:
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                status, body = HTTPStatus.UNAUTHORIZED, _status("Unauthorized")
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    servers.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield servers
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
