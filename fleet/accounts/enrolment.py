"""A node's way in: the install script, the agent's file, and a single-use code traded for the node's token.

The code travels in a body, never in a URL, and the script is given out over https or loopback alone.
"""

import hashlib
import json
import logging
import shlex
from functools import lru_cache
from pathlib import Path
from typing import Final

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, ValidationError
from django.db import transaction
from django.http import FileResponse, HttpRequest, HttpResponse, JsonResponse, UnreadablePostError
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST, require_safe

from fleet.accounts.models import AgentToken, EnrolmentCode, digest, node_name

log = logging.getLogger(__name__)

SCRIPTS: Final = Path(__file__).resolve().parents[2] / "deploy" / "agent"
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
MAX_BODY: Final = 4096
NOT_BUILT: Final = "The agent's file is not on this server: run `make agent` there, or name it in FETTLE_AGENT_FILE."


class EnrolmentError(Exception):
    """Why a node gets no token; the sentence goes to whoever asked."""


@never_cache
@require_safe
def install_script(request: HttpRequest) -> HttpResponse:
    """The script that installs the agent from this server; one that says what is wrong where it cannot."""
    host = request.get_host()
    if not request.is_secure() and host.rsplit(":", 1)[0] not in LOOPBACK:
        return _script_that_fails(
            f"http://{host} is not https: a token would travel for all to read. Use the server's https address."
        )
    found = agent_file()
    if found is None:
        return _script_that_fails(NOT_BUILT)
    text = (SCRIPTS / "install.sh").read_text()
    text = text.replace("@BASE@", shlex.quote(f"{request.scheme}://{host}")).replace("@SHA256@", found[1])
    return HttpResponse(
        text.replace("@PROGRAM@", (SCRIPTS / "install.py").read_text().rstrip()), content_type="text/x-shellscript"
    )


def _script_that_fails(sentence: str) -> HttpResponse:
    """`curl | sh` runs whatever comes: it gets a script that ends with the sentence."""
    text = f"echo {shlex.quote('fettle: ' + sentence)} >&2\nexit 1\n"
    return HttpResponse(text, status=503, content_type="text/x-shellscript")


@never_cache
@require_safe
def agent(request: HttpRequest) -> HttpResponse | FileResponse:
    """The agent as one file; 404 where it was not built."""
    found = agent_file()
    if found is None:
        return JsonResponse({"detail": NOT_BUILT}, status=404)
    return FileResponse(found[0].open("rb"), content_type="application/octet-stream", filename="fettle-agent.pyz")


def agent_file() -> tuple[Path, str] | None:
    """The agent's file and its SHA-256; None where there is none."""
    path = Path(settings.FETTLE_AGENT_FILE)
    try:
        found = path.stat()
    except OSError:
        return None
    return path, _sha256(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=2)
def _sha256(path: Path, _mtime_ns: int, _size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@csrf_exempt
@never_cache
@require_POST
def enrol(request: HttpRequest) -> JsonResponse:
    """`{"code", "node"}` for `{"token"}`; 400 for a body that says neither, 403 with a sentence for a code that will not do."""
    try:
        body = json.loads(request.body) if len(request.body) <= MAX_BODY else None
    except RequestDataTooBig:
        return JsonResponse({"detail": "The request is too large: send JSON with the texts `code` and `node`."}, status=413)
    except (ValueError, RecursionError, UnreadablePostError):
        body = None
    code, node = (body.get("code"), body.get("node")) if isinstance(body, dict) else (None, None)
    if not isinstance(code, str) or not isinstance(node, str):
        return JsonResponse({"detail": "Send JSON with the texts `code` and `node`."}, status=400)
    try:
        node_name(node)
    except ValidationError as error:
        return JsonResponse({"detail": str(error.message)}, status=400)
    try:
        return JsonResponse({"token": token_for(code, node)})
    except EnrolmentError as error:
        log.warning("Node %s was not enrolled: %s", node, error)
        return JsonResponse({"detail": str(error)}, status=403)


@transaction.atomic
def token_for(code: str, node: str) -> str:
    """The node's new token, for which the code is spent; EnrolmentError where it is none, was used, is too old or another node's.

    A code made for the node replaces the tokens that it had: the machine was set up anew. Any other code does not.
    """
    now = timezone.now()
    row = EnrolmentCode.objects.filter(digest=digest(code)).first()
    if row is None:
        raise EnrolmentError("This enrolment code is not known here.")
    if row.node_name and row.node_name != node:
        raise EnrolmentError("This enrolment code was made for another node.")
    if row.used_at is not None:
        raise EnrolmentError("This enrolment code was used already; each one enrols one node.")
    if row.expires_at <= now:
        raise EnrolmentError("This enrolment code is too old; ask for a new one.")
    tokens = AgentToken.objects.filter(node_name=node, revoked_at=None)
    if not row.node_name and tokens.exists():
        raise EnrolmentError(
            f"{node} has a token already. If it was set up anew, use a code made for it: enrolment_code --node {node}"
        )
    if not EnrolmentCode.objects.filter(pk=row.pk, used_at=None).update(used_at=now, used_by=node):
        raise EnrolmentError("This enrolment code was used already; each one enrols one node.")
    tokens.update(revoked_at=now)
    return AgentToken.issue(node_name=node)[1]
