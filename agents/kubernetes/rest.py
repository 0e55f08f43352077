"""JSON over HTTP for `fettle kubernetes`: the cluster's API server, whose certificate its own authority signs, and Fettle's.

urllib3 is what the server's requirements have; the agent's one file does without, and without this verb.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import urllib3

from wire.sentence import Sentence, _

DEADLINE_S: Final = 30.0
_MAX_BYTES: Final = 64_000_000
_TEXT_MAX: Final = 200


class RestError(Exception):
    """A server did not do what it was asked for; the message is a sentence. `status`: its HTTP status, 0 where it did not answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Rest:
    """One server. `token_file` is read with each request: a cluster gives its accounts another token every hour."""

    def __init__(self, url: str, token_file: Path | None, ca_file: Path | None) -> None:
        if not url.startswith(("https://", "http://")):
            raise RestError(Sentence(_("{url} is no address of a server: it begins with https:// or http://."), url=repr(url)))
        self._url = url.rstrip("/")
        self._token_file = token_file
        self._pool = urllib3.PoolManager(
            ca_certs=None if ca_file is None else str(ca_file), timeout=urllib3.Timeout(total=DEADLINE_S), retries=False
        )

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """The JSON that `path` answers with; RestError where it answers with none."""
        return self._ask("GET", path, {"Accept": "application/json"}, fields=dict(query or {}))

    def patch(self, path: str, body: object) -> Any:
        """The JSON that a merge patch of `path` is answered with."""
        headers = {"Accept": "application/json", "Content-Type": "application/merge-patch+json"}
        return self._ask("PATCH", path, headers, body=json.dumps(body).encode())

    def _ask(self, method: str, path: str, headers: dict[str, str], **options: Any) -> Any:
        if self._token_file is not None:
            headers["Authorization"] = f"Bearer {self._token(self._token_file)}"
        try:
            response = self._pool.request(
                method, self._url + path, headers=headers, redirect=False, preload_content=False, **options
            )
            try:
                content = response.read(_MAX_BYTES)
            finally:
                response.release_conn()
        except urllib3.exceptions.HTTPError as error:
            raise RestError(Sentence(_("{url} cannot be reached: {why}."), url=self._url, why=_plain(str(error)))) from None
        try:
            told = json.loads(content)
        except (ValueError, RecursionError):
            told = None
        if not 200 <= response.status < 300:
            why = _said(told)
            raise RestError(
                Sentence(
                    _("{method} {url}{path} answers with HTTP status {status}{why}"),
                    method=method,
                    url=self._url,
                    path=path,
                    status=response.status,
                    why=why,
                ),
                response.status,
            )
        if told is None:
            raise RestError(
                Sentence(_("{method} {url}{path} answers with what is no JSON."), method=method, url=self._url, path=path),
                response.status,
            )
        return told

    def _token(self, file: Path) -> str:
        try:
            return file.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise RestError(
                Sentence(_("{file} cannot be read: {why}."), file=file, why=getattr(error, "strerror", None) or error)
            ) from None


def _said(told: object) -> str:
    """What a Kubernetes status or a problem document says."""
    text = (told.get("detail") or told.get("message")) if isinstance(told, dict) else None
    return f": {_plain(str(text))}" if text else "."


def _plain(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)[:_TEXT_MAX]
