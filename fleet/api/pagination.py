"""Pages of lists."""

from rest_framework.pagination import PageNumberPagination


class Page(PageNumberPagination):
    """`?page=` and `?page_size=` (at most 1,000)."""

    page_size_query_param = "page_size"
    max_page_size = 1000
