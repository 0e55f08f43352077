"""What goes wrong behind a view, as an answer with a sentence."""

import logging
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from rest_framework import status
from rest_framework.exceptions import APIException, ParseError
from rest_framework.response import Response
from rest_framework.views import exception_handler

from fleet.findings.lifecycle import MoveError
from fleet.store.series import StoreError

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
    """DRF's answer, with our own errors given a status."""
    if isinstance(error, StoreError):
        log.error("The store failed a request: %s", error)  # its text may name paths: for the log alone
        error = StoreUnavailable()
    elif isinstance(error, MoveError):
        error = Conflict(str(error))
    elif isinstance(error, RecursionError):
        error = ParseError(gettext("The JSON of the request is nested too deeply."))
    return exception_handler(error, context)
