"""Who may change what."""

from django.utils.translation import gettext_lazy as _
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from fleet.accounts.models import AgentToken, ApiToken
from fleet.commands.asking import MAY
from fleet.tuning.changes import MAY as MAY_TUNE


class _Writers(BasePermission):
    """Reading is for everyone who is known; writing needs `right`, and a token that may write."""

    right = ""
    scope = ""
    """Of `accounts.models.SCOPES`: what a token that is narrowed to scopes needs for a write."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """True for reads, and for writes by a person with the right whose token, if any, may write."""
        if request.method in SAFE_METHODS:
            return True
        if isinstance(request.auth, ApiToken) and not request.auth.allows(self.scope):
            return False
        return request.user.has_perm(self.right)


class _Senders(_Writers):
    """As _Writers; an agent sends what is of its own node, and reads nothing."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """True for reads of people, and for writes by agents and by a person with the right whose token, if any, may write."""
        if isinstance(request.auth, AgentToken):
            return request.method == "POST"
        if request.method in SAFE_METHODS:
            return bool(request.user and request.user.is_authenticated)
        return super().has_permission(request, view)


class MayChangeFindings(_Writers):
    """Reading is for everyone who is known; changing needs the right to, and a token that may write."""

    message = _("This needs the right to change findings, and with a token one that was made with --write.")
    right = "findings.change_finding"
    scope = "findings"


class MayCommand(_Writers):
    """Reading is for everyone who is known; asking an agent needs the right to, and a token that may write."""

    message = _("This needs the right to add commands (operators have it), and with a token one that was made with --write.")
    right = MAY
    scope = "commands"


class MaySendBenchRuns(_Senders):
    """Reading is for everyone who is known; an agent sends its own node's runs, a person with the right those of any node."""

    message = _(
        "This needs the node's own token, or the right to add bench runs (operators have it) with a token that was made with --write."
    )
    right = "benches.add_benchrun"
    scope = "reports"


class MayAnnotate(_Writers):
    """Reading is for everyone who is known; annotating needs the right to, and a token that may write."""

    message = _(
        "This needs the right to change annotations (operators have it), and with a token one that was made with --write."
    )
    right = "annotations.change_annotation"
    scope = "annotations"


class MayTune(_Writers):
    """Reading is for everyone who is known; setting what rules do needs the right to, and a token that may write."""

    message = _("This needs the right to change rules (operators have it), and with a token one that was made with --write.")
    right = MAY_TUNE
    scope = "rules"


class MaySendProfiles(_Senders):
    """Reading is for everyone who is known; an agent sends profiles of its own node's jobs, a person with the right those of any."""

    message = _(
        "This needs the node's own token, or the right to add profiles (operators have it) with a token that was made with --write."
    )
    right = "profiles.add_jobprofile"
    scope = "reports"


class MayTellEvents(_Writers):
    """Telling of alerts needs the right to add events, and a token that may write."""

    message = _(
        "This needs the right to add events (operators have it), and with a token one that was made with --write or --scope events."
    )
    right = "inventory.add_event"
    scope = "events"


class MayTellJobs(_Writers):
    """Reading is for everyone who is known; telling of jobs needs the right to, and a token that may write."""

    message = _(
        "This needs the right to change jobs (operators have it), and with a token one that was made with --write or --scope jobs."
    )
    right = "jobs.change_job"
    scope = "jobs"


class MaySilence(_Writers):
    """Reading is for everyone who is known; silencing needs the right to, and a token that may write."""

    message = _(
        "This needs the right to add silences (operators have it), and with a token one that was made with --write or --scope alerts."
    )
    right = "notify.add_silence"
    scope = "alerts"


class MayRoute(_Writers):
    """Reading is for everyone who is known; deciding where alerts go needs the right to, and a token that may write."""

    message = _(
        "This needs the right to change routes (admins have it), and with a token one that was made with --write or --scope alerts."
    )
    right = "notify.change_route"
    scope = "alerts"


class MayInhibit(MayRoute):
    """As MayRoute, for inhibitions."""

    right = "notify.change_inhibition"


class MayAcknowledge(MaySilence):
    """As MaySilence, for acknowledging."""

    message = _(
        "This needs the right to acknowledge alerts (operators have it), and with a token one that was made with --write or --scope alerts."
    )
    right = "notify.add_acknowledgement"
