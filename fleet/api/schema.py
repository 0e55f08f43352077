"""The OpenAPI schema: its pages, and what its generator cannot see by itself."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated

from fleet.api.asked import Query, StrictQuery
from fleet.api.problems import CONTENT_TYPE, PROBLEM


class BearerTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call] # the library has no types
    """Describes the token in the schema."""

    target_class = "fleet.api.authentication.BearerToken"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """A bearer token in the Authorization header."""
        return {"type": "http", "scheme": "bearer", "description": "Made by `manage.py api_token USER NAME`."}


class AgentBearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call] # the library has no types
    """Describes an agent's token in the schema."""

    target_class = "fleet.api.authentication.AgentBearer"
    name = "agent_token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """A bearer token in the Authorization header."""
        return {"type": "http", "scheme": "bearer", "description": "A node's own, made by `manage.py agent_token NODE`."}


def with_problems(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """The schema, in which every answer that an operation does not list is a problem document, described once."""
    result["components"]["schemas"]["Problem"] = PROBLEM
    for operations in result["paths"].values():
        for operation in operations.values():
            answers = operation["responses"]
            answers.setdefault("default", {"description": "Every other error.", "content": {CONTENT_TYPE: {}}})
            for answer in answers.values():
                if CONTENT_TYPE in answer.get("content", {}):
                    answer["content"][CONTENT_TYPE] = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return result


class SchemaQuery(Query):
    """What the schema and its page may be asked for."""

    lang = serializers.CharField(required=False)
    version = serializers.CharField(required=False)
    script = serializers.CharField(required=False, allow_blank=True)


class SchemaView(StrictQuery, SpectacularAPIView):
    """The schema, for who is known."""

    permission_classes = [IsAuthenticated]
    queries = {"get": SchemaQuery}


class DocsView(StrictQuery, SpectacularSwaggerSplitView):
    """Swagger UI over the schema, for who is known."""

    permission_classes = [IsAuthenticated]
    queries = {"get": SchemaQuery}
