"""The server's REST API, spoken to from a node: by the address and the token that the agent's settings hold."""

import http.client
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from agents.config import AgentConfig, ConfigError
from agents.connection import connected
from agents.otlp import reason
from agents.report_post import endpoint, said
from agents.scrape import Target
from agents.server_url import shown
from wire.sentence import Sentence, _, of

DEADLINE_S: Final = 30.0
_MAX_BYTES: Final = 64_000_000
_AGENT: Final = "fettle"


class RestError(Exception):
    """The server did not give what it was asked for; the message is a sentence. `status`: its HTTP status, 0 where it did not answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Rest:
    """Requests of `/api/v1/…` with the token of `config`; RestError where no server or no token is set.

    `within_s`: for all of them together, from now on; None: DEADLINE_S for each.
    """

    def __init__(self, config: AgentConfig, within_s: float | None = None) -> None:
        if config.server is None:
            raise RestError(Sentence(_("no server is set: give --server, or --config with the agent's settings.")))
        try:
            self._secret = f"Bearer {config.token(config.node)}"
        except ConfigError as error:
            raise RestError(of(error)) from None
        self._server = config.server
        self._within_s = within_s
        self._ends = None if within_s is None else time.monotonic() + within_s

    @property
    def shown(self) -> str:
        """The server's address, for people."""
        return shown(self._server)

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """The JSON that `path` (`/api/v1/jobs/`) answers with."""
        return self._ask("GET", path + (f"?{urlencode(query)}" if query else ""), None)

    def pages(self, path: str, query: Mapping[str, str]) -> Iterator[Any]:
        """Every row of a list, page by page."""
        answer = self.get(path, {**query, "page_size": "1000"})
        while True:
            yield from answer["results"]
            if not answer.get("next"):
                return
            parts = urlsplit(answer["next"])  # a server behind a proxy may call itself otherwise: its own address stays ours
            answer = self.get(path + f"?{parts.query}")

    def post(self, path: str, body: object) -> Any:
        """The JSON that a POST of this JSON is answered with."""
        return self._ask("POST", path, json.dumps(body, ensure_ascii=False).encode())

    def _ask(self, method: str, path: str, body: bytes | None) -> Any:
        where = endpoint(self._server, path.removeprefix("/"))
        left_s = DEADLINE_S if self._ends is None else max(0.0, self._ends - time.monotonic())
        try:
            if not left_s:
                raise TimeoutError
            status, answer = _exchange(where, method, body, self._secret, min(left_s, DEADLINE_S))
        except TimeoutError:
            within_s = DEADLINE_S if self._within_s is None else self._within_s
            raise RestError(
                Sentence(_("{server} did not answer within {seconds:g} s."), server=self.shown, seconds=within_s)
            ) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise RestError(Sentence(_("{server} cannot be reached: {why}."), server=self.shown, why=reason(error))) from None
        if not 200 <= status < 300:
            raise RestError(
                Sentence(_("{url} answers with HTTP status {status}{more}"), url=where.url, status=status, more=said(answer)),
                status,
            )
        try:
            return json.loads(answer)
        except (ValueError, RecursionError):
            raise RestError(Sentence(_("{url} answers with what is no JSON."), url=where.url), status) from None


def _exchange(where: Target, method: str, body: bytes | None, secret: str, deadline_s: float) -> tuple[int, bytes]:
    headers = {"Accept": "application/json", "User-Agent": _AGENT, "Connection": "close", "Authorization": secret}
    if body is not None:
        headers["Content-Type"] = "application/json"
    with connected(where, deadline_s, 2 * _MAX_BYTES) as connection:
        connection.request(method, where.path, body, headers)
        with connection.getresponse() as response:
            return response.status, response.read(_MAX_BYTES)
