"""What schedulers send of their jobs, read and checked: the body of POST /jobs/, in JSON or as a form."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from fleet.accounts.plain_text import plain_text
from fleet.api.asked import AskedSerializer, given_twice
from fleet.jobs.devices import DeviceError, Devices, devices
from fleet.jobs.holdings import Given
from fleet.jobs.hosts import hosts
from fleet.jobs.models import END_STATES, SOURCES, STATES, Job, cluster_name, job_number
from fleet.jobs.told import Told, wrong

MOST: Final = 500
"""Jobs in one request."""
MOST_HELD: Final = 20_000
"""Devices in one request, all jobs together."""
MOST_LABELS: Final = 32
_FIRST: Final = datetime(1990, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(2100, 1, 1, tzinfo=UTC)


@extend_schema_field({"oneOf": [{"type": "string", "format": "date-time"}, {"type": "number", "minimum": 631152000}]})
class MomentField(serializers.Field[datetime, Any, str, Any]):
    """A time with its zone (RFC 3339), or seconds since 1970."""

    def to_internal_value(self, data: Any) -> datetime:
        """The time in UTC, of the years 1990 to 2099: a start of 0 or of -1 is a scheduler's way to say that it has none."""
        found = _moment(data)
        if found is None:
            says = gettext("Write a time with its zone (2026-11-30T12:00:00Z), or seconds since 1970.")
            raise serializers.ValidationError(says)
        if not _FIRST <= found < _LAST:
            raise serializers.ValidationError(
                gettext("This is a time between 1990 and 2100; leave it out where it is not known.")
            )
        return found

    def to_representation(self, value: datetime) -> str:
        """As RFC 3339 writes it."""
        return value.isoformat()


def _moment(data: Any) -> datetime | None:
    if isinstance(data, bool):
        return None
    try:
        if isinstance(data, int | float):
            return datetime.fromtimestamp(data, UTC)
        text = str(data).strip() if isinstance(data, str) else ""
        if text.replace(".", "", 1).isascii() and text.replace(".", "", 1).isdigit():
            return datetime.fromtimestamp(float(text), UTC)
        read = parse_datetime(text)
        return read.astimezone(UTC) if read is not None and read.tzinfo is not None else None
    except (ValueError, OverflowError, OSError):
        return None


@extend_schema_field(
    {
        "oneOf": [
            {"type": "string", "maxLength": 20000},
            {"type": "array", "maxItems": 1024, "items": {"oneOf": [{"type": "string"}, {"type": "integer", "minimum": 0}]}},
        ]
    }
)
class DevicesField(serializers.Field[Devices, Any, list[str], Any]):
    """Devices by index, UUID, MIG UUID, PCI bus id, or as Slurm lists them."""

    def to_internal_value(self, data: Any) -> Devices:
        """The single devices; ValidationError for what is none."""
        if isinstance(data, list) and all(isinstance(one, str | int) and not isinstance(one, bool) for one in data):
            told = data
        elif isinstance(data, str) or (isinstance(data, int) and not isinstance(data, bool)):
            told = [data]
        else:
            raise serializers.ValidationError(gettext("Write a text, or a list of texts and indexes."))
        try:
            return devices(told)
        except DeviceError as error:
            raise serializers.ValidationError(str(error)) from None

    def to_representation(self, value: Devices) -> list[str]:
        """The names."""
        return list(value.names)


@extend_schema_field(OpenApiTypes.STR)
class HostsField(serializers.Field[tuple[str, ...], Any, str, Any]):
    """Nodes: one name, names with commas, or Slurm's ranges."""

    def to_internal_value(self, data: Any) -> tuple[str, ...]:
        """The single names; ValidationError for what is no list."""
        if not isinstance(data, str):
            raise serializers.ValidationError(gettext("Write a text: names with commas, or ranges as Slurm does (gpu[01-04,7])."))
        try:
            return hosts(data)
        except DeviceError as error:
            raise serializers.ValidationError(str(error)) from None

    def to_representation(self, value: tuple[str, ...]) -> str:
        """The names with commas."""
        return ",".join(value)


def _text(name: str, **more: Any) -> serializers.CharField:
    most = getattr(Job._meta.get_field(name), "max_length")  # noqa: B009 - the base class has none
    return serializers.CharField(max_length=most, required=False, validators=[plain_text], **{"allow_blank": True, **more})


class GivenSerializer(AskedSerializer):
    """Devices that the job holds from now on, on one node or the same on several. What is left out of a node's devices ends now."""

    node = HostsField(required=False, help_text="One node's name.")
    nodes = HostsField(required=False, help_text="Several: gpu[01-04,7].")
    devices = DevicesField(
        required=False, help_text="Left out: nothing is said of them. Empty: the job holds none there any more."
    )
    shared = serializers.BooleanField(default=False, help_text="Other jobs hold them too (time-slicing, MPS).")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The same; ValidationError where devices have no node."""
        if not attrs.get("node") and not attrs.get("nodes"):
            raise serializers.ValidationError({"node": [gettext("Say on which node (node), or nodes, the devices are.")]})
        if len(attrs.get("node", ())) > 1:
            raise serializers.ValidationError({"node": [gettext("node takes one name; nodes takes several.")]})
        return attrs


class JobBody(AskedSerializer):
    """A start, a change or an end of one run of a job. What is left out stays as it was.

    A run is known by cluster, job_id and started_at; without started_at the newest run of that id is meant, of an end the one that is open. An end, told by `ended_at` or by
    the state, takes all devices back, and stands whatever comes later. `nodes`, `devices` and `shared` at the top are one entry of `allocations`.
    """

    cluster = serializers.CharField(max_length=100, validators=[cluster_name])
    job_id = serializers.CharField(max_length=200, validators=[job_number])
    started_at = MomentField(required=False, help_text="When it was given its GPUs, by the scheduler's clock.")
    started_about = MomentField(
        required=False,
        help_text="In place of started_at, by a node's clock: the run that goes on with the same restarts and began within an hour of it "
        "is meant, else a new one begins.",
    )
    ended_at = MomentField(required=False)
    source = serializers.ChoiceField(choices=[name for name in SOURCES if name != "processes"], required=False)  # type: ignore[assignment] # a field
    state = serializers.ChoiceField(choices=STATES, required=False)
    exit_code = serializers.IntegerField(min_value=-(1 << 31), max_value=(1 << 31) - 1, required=False)
    name = _text("name")
    user = _text("user")
    account = _text("account")
    partition = _text("partition")
    gpus_total = serializers.IntegerField(min_value=0, max_value=1_000_000, required=False)
    array_job_id = _text("array_job_id")
    restarts = serializers.IntegerField(min_value=0, max_value=1_000_000, required=False)
    labels = serializers.DictField(
        child=serializers.CharField(max_length=200, allow_blank=True, validators=[plain_text]), required=False
    )
    allocations = GivenSerializer(many=True, required=False)
    nodes = HostsField(required=False, help_text="With `devices`: one entry of allocations, as forms can say it.")
    devices = DevicesField(required=False)
    shared = serializers.BooleanField(required=False)

    def validate_labels(self, labels: dict[str, str]) -> dict[str, str]:
        """The same; ValidationError for too many, and for names that nobody could read."""
        if len(labels) > MOST_LABELS:
            raise serializers.ValidationError(gettext("A job has at most {most} labels.").format(most=MOST_LABELS))
        for name in labels:
            if not 0 < len(name) <= 100:
                raise serializers.ValidationError(gettext("A label's name has 1 to 100 characters."))
            plain_text(name)
        return labels

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The same; ValidationError for a job that ends and goes on, ends before it starts, or holds devices nowhere, and for what cannot be."""
        if "ended_at" in attrs and attrs.get("state", "lost") not in END_STATES:
            says = gettext("A job that has ended is not {state}: send one of {states}, or no state.")
            raise serializers.ValidationError({"state": [says.format(state=attrs["state"], states=", ".join(END_STATES))]})
        if "started_at" in attrs and "started_about" in attrs:
            raise serializers.ValidationError({"started_about": [gettext("Send it or started_at, not both.")]})
        if "ended_at" in attrs and "started_at" in attrs and attrs["ended_at"] < attrs["started_at"]:
            raise serializers.ValidationError({"ended_at": [gettext("It lies before started_at.")]})
        if "ended_at" in attrs and "started_about" in attrs and attrs["ended_at"] < attrs["started_about"]:
            raise serializers.ValidationError({"ended_at": [gettext("It lies before started_about.")]})
        if "devices" in attrs and not attrs.get("nodes"):
            raise serializers.ValidationError({"nodes": [gettext("Say on which nodes the devices are.")]})
        if found := wrong(told_of(attrs), timezone.now()):
            raise serializers.ValidationError({name: [says] for name, says in found.items()})
        return attrs


def _entries(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Those of allocations that say devices, with the one at the top."""
    entries = [entry for entry in body.get("allocations", ()) if "devices" in entry]
    if "devices" in body:
        entries.append({"nodes": body["nodes"], "devices": body["devices"], "shared": body.get("shared", False)})
    return entries


def told_of(body: Mapping[str, Any]) -> Told:
    """What a checked body says."""
    told: Any = {name: value for name, value in body.items() if name not in ("allocations", "nodes", "devices", "shared")}
    allocations = [
        Given(node=node, devices=entry["devices"].names, shared=entry["shared"] or entry["devices"].shared)
        for entry in _entries(body)
        for node in dict.fromkeys((*entry.get("node", ()), *entry.get("nodes", ())))
    ]
    if allocations:
        told["allocations"] = allocations
    return cast(Told, told)


def read(data: Any) -> list[Told]:
    """What the body of a request tells; ValidationError, by place in a list, for what does not fit."""
    is_list = isinstance(data, list)
    many = data if is_list else [_plain(data)]
    if not 1 <= len(many) <= MOST:
        raise serializers.ValidationError({"body": [gettext("Send 1 to {most} jobs.").format(most=MOST)]})
    bodies = [JobBody(data=one) for one in many]
    wrong = {str(place): one.errors for place, one in enumerate(bodies) if not one.is_valid()}
    if wrong:
        raise serializers.ValidationError(wrong if is_list else wrong["0"])
    told = [told_of(one.validated_data) for one in bodies]
    if sum(len(given["devices"]) for one in told for given in one.get("allocations", ())) > MOST_HELD:
        raise serializers.ValidationError({"body": [gettext("Send at most {most} devices at once.").format(most=MOST_HELD)]})
    return told


def _plain(data: Any) -> Any:
    """A form as the object that it means: an empty value was not told, so that a script may send variables that are not set."""
    if not isinstance(data, QueryDict):
        return data
    twice = [name for name, values in data.lists() if len(values) > 1]
    if twice:
        raise serializers.ValidationError({name: [given_twice(name)] for name in twice[:10]})
    return {name: value for name, value in data.items() if value != ""}
