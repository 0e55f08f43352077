"""Pages of lists."""

from typing import Any

from django.utils.translation import gettext
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import PageNumberPagination
from rest_framework.request import Request


class Page(PageNumberPagination):
    """`?page=` and `?page_size=` (at most 1,000)."""

    page_size_query_param = "page_size"
    max_page_size = 1000

    def get_page_size(self, request: Request) -> int | None:
        """The size asked for, no more than the largest; ValidationError when it is no whole number from 1."""
        asked = request.query_params.get("page_size", "")
        if asked and not (asked.isascii() and asked.isdigit() and 0 < int(asked[:9]) <= self.max_page_size and len(asked) < 9):
            raise ValidationError({"page_size": gettext("page_size takes a whole number from 1 to 1000.")})
        return super().get_page_size(request)

    def get_page_number(self, request: Request, paginator: Any) -> int | str:
        """The page asked for; ValidationError when it is no whole number from 1, nor `last`."""
        asked = request.query_params.get("page", "1")
        if asked not in self.last_page_strings and not (asked.isascii() and asked.isdigit() and len(asked) < 10 and int(asked)):
            raise ValidationError({"page": gettext("page takes a whole number from 1, or last.")})
        return super().get_page_number(request, paginator)
