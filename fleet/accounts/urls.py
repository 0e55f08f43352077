"""Where a node's install script looks."""

from django.urls import path

from fleet.accounts import enrolment

urlpatterns = [
    path("install.sh", enrolment.install_script, name="agent-install"),
    path("fettle-agent.pyz", enrolment.agent, name="agent-file"),
    path("enrol", enrolment.enrol, name="agent-enrol"),
]
