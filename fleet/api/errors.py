"""What goes wrong behind a view, as an answer with a sentence."""

import logging
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, JsonResponse, UnreadablePostError
from django.http.response import HttpResponseBase
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views import defaults
from rest_framework import status
from rest_framework.exceptions import APIException, NotFound, ParseError, ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.views import exception_handler

from fleet.annotations.telling import TellError
from fleet.api.bodies import TooLarge
from fleet.api.problems import CONTENT_TYPE, as_problem, document
from fleet.commands.asking import AskError
from fleet.findings.advised import MoveError
from fleet.jobs.telling import TellJobError
from fleet.notify.acknowledging import AcknowledgeError
from fleet.notify.sending import SendError
from fleet.store.series import StoreError
from fleet.tuning.changes import NotNowError, TuneError
from fleet.tuning.own_rules import OwnRuleError

log = logging.getLogger(__name__)


class StoreUnavailable(APIException):
    """503: the store of telemetry does not answer."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_detail = _("The store of telemetry does not answer; try again shortly.")
    default_code = "store_unavailable"


class Conflict(APIException):
    """409: what was asked does not fit the state that things are in."""

    status_code = status.HTTP_409_CONFLICT
    default_code = "conflict"


def handle(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's answer as a problem document, with our own errors given a status."""
    if isinstance(error, StoreError):
        log.error("The store failed a request: %s", error)  # its text may name paths: for the log alone
        error = StoreUnavailable()
    elif isinstance(error, MoveError | AskError | TellError | TellJobError | NotNowError | AcknowledgeError | SendError):
        error = Conflict(str(error))
    elif isinstance(error, TuneError):
        error = ValidationError({"detail": str(error)})
    elif isinstance(error, OwnRuleError):
        error = ValidationError({name: [says] for name, says in error.wrong.items()})
    elif isinstance(error, RequestDataTooBig):
        error = TooLarge()
    elif isinstance(error, UnreadablePostError):
        error = ParseError(gettext("The request broke off."))
    elif isinstance(error, RecursionError):
        error = ParseError(gettext("The JSON of the request is nested too deeply."))
    elif isinstance(error, Http404):
        error = NotFound(gettext("There is no such object; the lists under /api/v1/ say what there is."))
    response = exception_handler(error, context)
    if response is not None:
        as_problem(response)
        request = context.get("request")
        if request is not None:  # whatever else a view writes: YAML, HTML
            request.accepted_renderer, request.accepted_media_type = JSONRenderer(), JSONRenderer.media_type
    return response


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Django's answer to what it refuses before any view; a problem document under /api/."""
    if not _is_of_api(request):
        return defaults.bad_request(request, exception)
    return _problem(400, gettext("The request cannot be read."))


def server_error(request: HttpRequest) -> HttpResponseBase:
    """Django's answer where a view failed; a problem document under /api/."""
    if not _is_of_api(request):
        return defaults.server_error(request)
    return _problem(500, gettext("The server failed at this request; its log says why."))


def _is_of_api(request: HttpRequest) -> bool:
    return request.path_info.startswith("/api/")


def _problem(status: int, detail: str) -> JsonResponse:
    return JsonResponse(document(status, detail), status=status, content_type=CONTENT_TYPE)
