"""Who calls the API: a program with a token, or a person with a session."""

from datetime import timedelta
from typing import Final

from django.contrib.auth.models import AnonymousUser
from django.utils import timezone
from django.utils.translation import gettext
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request

from fleet.accounts.models import AgentToken, ApiToken, User

USE_NOTED_EVERY: Final = timedelta(minutes=1)
"""How exact `last_used_at` is: a busy caller does not make a write of each read."""


class AgentBearer(BaseAuthentication):
    """The token of a node's agent, in the same header; for those views alone that agents speak to."""

    def authenticate(self, request: Request) -> tuple[AnonymousUser, AgentToken] | None:
        """Nobody and the agent's token; None where the header holds no such token, which may be another's."""
        words = get_authorization_header(request).split()
        if len(words) != 2 or words[0].lower() != b"bearer":
            return None
        token = AgentToken.of(words[1].decode("latin-1"))
        return None if token is None else (AnonymousUser(), token)

    def authenticate_header(self, request: Request) -> str:
        """What the answer 401 asks for."""
        return 'Bearer realm="fettle"'


class BearerToken(BaseAuthentication):
    """`Authorization: Bearer TOKEN`; the token is the request's `auth`."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        """The token's user and the token; None without the header.

        AuthenticationFailed for a token that does not hold, PermissionDenied for one whose scopes do not reach so far.
        """
        words = get_authorization_header(request).split()
        if not words or words[0].lower() != b"bearer":
            return None
        if len(words) != 2:
            raise AuthenticationFailed(gettext("Write the header as: Authorization: Bearer TOKEN."))
        token = ApiToken.of(words[1].decode("latin-1"))
        if token is None or not token.user.is_active:
            raise AuthenticationFailed(gettext("The token is unknown, was revoked or has expired."))
        _refuse_beyond_scopes(token, request)
        now = timezone.now()
        if token.last_used_at is None or now - token.last_used_at > USE_NOTED_EVERY:
            ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        """What the answer 401 asks for."""
        return 'Bearer realm="fettle"'


def _refuse_beyond_scopes(token: ApiToken, request: Request) -> None:
    """PermissionDenied for what none of the token's scopes allow. Here, and not in views: no view can leave it out."""
    if not token.scopes:
        return
    view = (request.parser_context or {}).get("view")
    if request.method in SAFE_METHODS:
        needed: tuple[str, ...] = ("read", *getattr(view, "also_read_by", ()))
    else:
        classes = getattr(view, "permission_classes", ())
        needed = tuple(one.scope for one in classes if getattr(one, "scope", "")) or ("read",)  # what writes nothing, as plans do
    if not any(map(token.allows, needed)):
        says = gettext("The token's scopes ({has}) do not reach so far; this needs one with: {needed}.")
        raise PermissionDenied(says.format(has=", ".join(token.scopes), needed=", ".join(needed)))
