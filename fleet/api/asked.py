"""What a caller may ask: keys of a body and parameters of an address that nobody reads are refused here, for every view."""

from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView

_SHOWN: Final = 40
"""Characters of a name that is not known."""
_NUMBERS: Final = (serializers.FloatField, serializers.IntegerField, serializers.DecimalField)


class AskedSerializer(serializers.Serializer[Any]):
    """The base of every body: a key that it does not know is refused by name, beside those that it knows."""

    def to_internal_value(self, data: Any) -> Any:
        """The values; ValidationError at every key that is not known, before anything else is looked at,
        and at every number that is told by true or false."""
        unknown = [str(name) for name in data if name not in self.fields] if isinstance(data, Mapping) else []
        if unknown:
            known = ", ".join(self.fields)
            says = (
                gettext("There is no key {name} here; there are: {known}.") if known else gettext("There is no key {name} here.")
            )
            raise serializers.ValidationError(
                {name[:_SHOWN]: [says.format(name=name[:_SHOWN], known=known)] for name in unknown[:10]}
            )
        if isinstance(data, Mapping) and (flags := self._flags_for_numbers(data)):
            says = gettext("This must be a number, not true or false.")
            raise serializers.ValidationError({name: [says] for name in flags})
        return super().to_internal_value(data)

    def _flags_for_numbers(self, data: Mapping[Any, Any]) -> list[str]:
        """The keys of numbers at which true or false stands: Python would count with them as 1 and 0."""
        return [name for name, one in self.fields.items() if isinstance(one, _NUMBERS) and isinstance(data.get(name), bool)]


class Nothing(AskedSerializer):
    """The body of what takes none: empty, or an object without keys."""


class Query(serializers.Serializer[Any]):
    """The base of every query; by itself that of what takes no parameters."""

    takes_none: Any = _("The address takes no parameter {name} here.")

    def to_internal_value(self, data: Any) -> Any:
        """The parameters read; one that is not known, or given twice, is an error and never left out in silence."""
        known = [*self.fields]
        for name in data:
            if name not in (*known, "format"):
                says = gettext("There is no parameter {name}; there are: {known}.") if known else str(self.takes_none)
                says = says.format(name=name[:_SHOWN], known=", ".join(sorted(known)))
                raise serializers.ValidationError({name[:_SHOWN]: [says]})
            if len(data.getlist(name)) > 1:
                raise serializers.ValidationError({name: [given_twice(name)]})
        return super().to_internal_value(data.dict())  # of a form an empty value would count as none: nodes= as the whole fleet


class PageQuery(Query):
    """The query of a list that nothing narrows; the paginator checks the values."""

    page = serializers.CharField(required=False)
    page_size = serializers.CharField(required=False)


class StrictQuery(APIView):
    """A view that reads its query by a serializer, and refuses one that it has no use for.

    Lists with a filter are left to it: filters.Strict refuses as much.
    """

    queries: Mapping[str, type[Query]] = {}
    """By action, or by method in small letters where a view has no actions."""
    query: Mapping[str, Any]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check who calls, then what of the query does not fit."""
        super().initial(request, *args, **kwargs)
        action = getattr(self, "action", None) or str(request.method).lower()
        if action == "list" and getattr(self, "filterset_class", None) is not None:
            return
        asked = self.queries.get(action, Query)(data=request.query_params)
        asked.is_valid(raise_exception=True)
        self.query = asked.validated_data


def given_twice(name: str) -> str:
    """A sentence that says so of a parameter."""
    return gettext("{name} is given more than once.").format(name=name)
