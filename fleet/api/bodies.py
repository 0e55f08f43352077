"""Bodies of requests: how large one may be, and JSON that can mean one thing alone."""

import json
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import TooManyFieldsSent
from django.http import QueryDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from rest_framework import status
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import FormParser, JSONParser

_SHOWN: Final = 40
"""Characters of a name that is told back."""


class TooLarge(APIException):
    """413: the request is larger than is read."""

    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_detail = _("The request is too large to be read.")
    default_code = "too_large"


class Json(JSONParser):
    """A body of JSON. One with a name twice in an object is refused: which of the two values was meant, nobody can say."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        """The value; ParseError where it is none, TooLarge (413) over Django's limit of a body."""
        data = _bytes(stream)
        try:
            read = json.loads(data.decode("utf-8"), object_pairs_hook=_object, parse_constant=self._constant)
            if rb"\ud" in data.lower():
                json.dumps(read, ensure_ascii=False).encode("utf-8")
            return read
        except UnicodeEncodeError:
            raise ParseError(gettext("A text of the body holds half a character (a lone surrogate).")) from None
        except UnicodeDecodeError:
            raise ParseError(gettext("The body is not JSON: it is not written in UTF-8.")) from None
        except ValueError as error:
            if not isinstance(error, json.JSONDecodeError):  # Python's limit of a number's digits, in words about its own insides
                raise ParseError(gettext("A number of the body has too many digits.")) from None
            raise ParseError(gettext("The body is not JSON: {why}.").format(why=error)) from None

    def _constant(self, name: str) -> float:
        if self.strict:
            raise ParseError(gettext("JSON has no number {name}.").format(name=name))
        return float(name)


class Form(FormParser):
    """A form as `curl --data-urlencode` sends it; values are texts."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        """The names with their values; ParseError where it is none, TooLarge (413) over Django's limit of a body."""
        try:
            return QueryDict(_bytes(stream).decode("utf-8"), encoding="utf-8")
        except UnicodeDecodeError:
            raise ParseError(gettext("The form is not written in UTF-8.")) from None
        except TooManyFieldsSent:
            raise TooLarge from None


def _bytes(stream: Any) -> bytes:
    """The body; TooLarge (413) over Django's limit."""
    most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    data: bytes = stream.read() if most is None else stream.read(most + 1)
    if most is not None and len(data) > most:
        raise TooLarge
    return data


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _value in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ParseError(gettext("An object of the body has {name} twice.").format(name=twice[:_SHOWN]))
    return found
