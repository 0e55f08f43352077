"""What the OpenAPI generator cannot see by itself."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension


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
