"""What goes wrong behind a view, as an answer with a sentence."""

import logging
from http import HTTPStatus
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import UnreadablePostError
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from rest_framework import status
from rest_framework.exceptions import APIException, ParseError, ValidationError
from rest_framework.response import Response
from rest_framework.views import exception_handler

from fleet.annotations.telling import TellError
from fleet.commands.asking import AskError
from fleet.findings.lifecycle import MoveError
from fleet.store.series import StoreError
from fleet.tuning.changes import NotNowError, TuneError
from fleet.tuning.own_rules import OwnRuleError

log = logging.getLogger(__name__)


class StoreUnavailable(APIException):
    """503: the store of telemetry does not answer."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_detail = _("The store of telemetry does not answer; try again shortly.")
    default_code = "store_unavailable"


class TooLarge(APIException):
    """413: the request is larger than is read."""

    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_detail = _("The request is too large to be read.")
    default_code = "too_large"


class Conflict(APIException):
    """409: what was asked does not fit the state that things are in."""

    status_code = status.HTTP_409_CONFLICT
    default_code = "conflict"


def handle(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's answer, with our own errors given a status."""
    if isinstance(error, StoreError):
        log.error("The store failed a request: %s", error)  # its text may name paths: for the log alone
        error = StoreUnavailable()
    elif isinstance(error, MoveError | AskError | TellError | NotNowError):
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
    response = exception_handler(error, context)
    if response is not None and getattr(context.get("view"), "tells_problems", False):
        _as_problem(response)
    return response


def _as_problem(response: Response) -> None:
    """Make the answer a problem document (RFC 9457); what does not fit single parameters stands under `errors`, by parameter."""
    said = response.data
    detail = said.get("detail") if isinstance(said, dict) else None
    response.data = {
        "type": "about:blank",
        "title": HTTPStatus(response.status_code).phrase,
        "status": response.status_code,
        "detail": detail or gettext("The request does not fit; `errors` says where."),
        **({} if detail else {"errors": said}),
    }
    response.content_type = "application/problem+json"
