"""The nouns all else points at: nodes, GPUs, what happened to them, what they cannot say."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import pgettext_lazy

from fleet.inventory.gpu_rows import REMEMBERED, GpuRows, changed

PROMETHEUS = "prometheus"
"""Source of a node that is read from a Prometheus."""
STALE_AFTER = timedelta(seconds=30)
"""Older than this, a node's state is unknown: neither healthy nor idle."""

STILL_THERE = timedelta(minutes=2)
"""Processes and engines that are there were seen within this time: ingest writes `last_seen_at` once a minute."""

MIN_SKEW_S = 2.0
"""A clock that is off by less counts as right."""


def whole_skew(skew_s: float | None) -> int:
    """Seconds by which a clock counts as ahead of the server's, negative where it is behind; 0 where nothing is known."""
    return 0 if skew_s is None or abs(skew_s) < MIN_SKEW_S else round(skew_s)


class Node(models.Model):
    """A machine with GPUs, made when its enrolled agent first says hello."""

    name = models.CharField(max_length=200, unique=True)
    boot = models.CharField(max_length=64, blank=True)
    agent_version = models.CharField(max_length=40, blank=True)
    kernel = models.CharField(max_length=200, blank=True)
    driver_version = models.CharField(max_length=40, blank=True)
    cuda_driver_version = models.CharField(max_length=40, blank=True)
    nvidia_module_version = models.CharField(max_length=40, blank=True)
    nvidia_parameters = models.JSONField(
        default=dict, blank=True, help_text="Parameters of the NVIDIA module by name, as told last."
    )
    cpu_governor = models.CharField(max_length=40, blank=True, help_text="Of the first core.")
    rdma_ready = models.BooleanField(
        null=True, blank=True, help_text="Its adapters may reach the GPUs' memory (nvidia_peermem or DMA-BUF); null: not told."
    )
    numa_distances = models.JSONField(
        default=dict, blank=True, help_text="From each NUMA node to all of them; 10 is its own memory."
    )
    facts_absent = models.JSONField(default=dict, blank=True, help_text="Why its agent does not tell a fact, by the fact's name.")
    cores = models.PositiveIntegerField(null=True, blank=True)
    mem_total_bytes = models.BigIntegerField(null=True, blank=True)
    interval_s = models.FloatField(default=1.0)
    served_by = models.CharField(max_length=32, blank=True, help_text="The server process that last took its hello in.")
    recording = models.CharField(max_length=100, blank=True, help_text="The recording being played; empty for a real machine.")
    source = models.CharField(
        max_length=20, blank=True, help_text="prometheus: read from a Prometheus; empty: an agent of ours tells of it."
    )
    connected_at = models.DateTimeField(null=True, blank=True)
    disconnected_at = models.DateTimeField(null=True, blank=True)
    last_seen_at = models.DateTimeField(null=True, blank=True, help_text="The newest sample stored, by the server's clock.")
    last_received_at = models.DateTimeField(
        null=True, blank=True, help_text="When its newest batch came; its newest sample may be older."
    )
    booted_at = models.DateTimeField(null=True, blank=True, help_text="When the machine booted, by its own clock.")
    said_bye_at = models.DateTimeField(
        null=True, blank=True, help_text="When its agent was stopped in order; null: it was not, or it has begun anew."
    )
    clock_skew_s = models.FloatField(null=True, blank=True, help_text="The node's clock less the server's.")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name = pgettext_lazy("model", "node")
        verbose_name_plural = pgettext_lazy("model", "nodes")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def is_stale(self) -> bool:
        """True when nothing was stored of this node lately: its state is unknown."""
        return self.last_seen_at is None or timezone.now() - self.last_seen_at > STALE_AFTER


class Gpu(models.Model):
    """One GPU of one node, known by its UUID. Its id is the key of its series in the store."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="gpus")
    uuid = models.CharField(max_length=80)
    index = models.PositiveSmallIntegerField(help_text="NVML's order, for display alone.")
    model = models.CharField(max_length=100)
    pci_bus_id = models.CharField(max_length=40, blank=True)
    compute_capability = models.CharField(max_length=10, blank=True)
    mem_total_bytes = models.BigIntegerField(null=True, blank=True)
    power_limit_w = models.FloatField(null=True, blank=True)
    power_limit_default_w = models.FloatField(null=True, blank=True)
    sm_clock_max_mhz = models.FloatField(null=True, blank=True)
    mem_clock_max_mhz = models.FloatField(null=True, blank=True)
    pcie_link_gen_max = models.PositiveSmallIntegerField(null=True, blank=True)
    pcie_link_width_max = models.PositiveSmallIntegerField(null=True, blank=True)
    nvlink_links = models.PositiveSmallIntegerField(null=True, blank=True)
    nvlink_bytes_per_s_per_link = models.FloatField(null=True, blank=True)
    mig_mode = models.BooleanField(null=True, blank=True)
    parent_uuid = models.CharField(max_length=80, blank=True, help_text="Of a MIG instance: the GPU that it is a slice of.")
    mig_profile = models.CharField(max_length=40, blank=True)
    mig_gpu_instance = models.PositiveSmallIntegerField(null=True, blank=True)
    mig_compute_instance = models.PositiveSmallIntegerField(null=True, blank=True)
    memory_kind = models.CharField(
        max_length=10, blank=True, help_text="own, or unified: one with the host's; empty: its agent does not say."
    )
    power_scope = models.CharField(
        max_length=10, blank=True, help_text="gpu, or module: its energy and its limit are shared with a CPU; empty: unknown."
    )
    power_average_s = models.FloatField(null=True, blank=True, help_text="What its power is a mean over; 0: an instant.")
    accounting_mode = models.BooleanField(null=True, blank=True, help_text="The driver keeps an account of each process.")
    numa_node = models.PositiveSmallIntegerField(null=True, blank=True)
    labels = models.JSONField(default=dict, blank=True, help_text="What dcgm-exporter says of who uses it (keys of wire.labels).")
    labels_told_at = models.DateTimeField(null=True, blank=True, help_text="When its agent said so.")
    present = models.BooleanField(default=True, help_text="False once the agent no longer lists it.")
    created_at = models.DateTimeField(default=timezone.now)

    objects = GpuRows.as_manager()

    class Meta:
        verbose_name = pgettext_lazy("model", "GPU")
        verbose_name_plural = pgettext_lazy("model", "GPUs")
        ordering = ("node__name", "index")
        constraints = [models.UniqueConstraint(fields=("node", "uuid"), name="gpu_of_node")]

    def __str__(self) -> str:
        return f"{self.node.name} GPU {self.index}"

    def save(self, *args: Any, update_fields: Iterable[str] | None = None, **kwargs: Any) -> None:
        """As Django's; the GPUs of its node have another version then (gpu_rows.py)."""
        with transaction.atomic():
            super().save(*args, update_fields=update_fields, **kwargs)
            if update_fields is None or REMEMBERED.intersection(update_fields):
                changed([self.node_id])

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """As Django's, likewise."""
        with transaction.atomic():
            told = super().delete(*args, **kwargs)
            changed([self.node_id])
        return told


class GpuListing(models.Model):
    """Which rows of a node's GPUs count now: `version` is another number after each change of them. A node without a row never had GPUs
    since versions are kept."""

    node = models.OneToOneField(Node, on_delete=models.CASCADE, primary_key=True, related_name="listing")
    version = models.BigIntegerField()

    class Meta:
        verbose_name = pgettext_lazy("model", "version of a node's GPUs")
        verbose_name_plural = pgettext_lazy("model", "versions of nodes' GPUs")

    def __str__(self) -> str:
        return f"{self.node} {self.version}"


class Engine(models.Model):
    """A serving engine of one node, known by where it is asked. Its id is the key of its series in the store."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="engines")
    name = models.CharField(max_length=200, help_text="Where its agent asks it, such as http://127.0.0.1:8000.")
    kind = models.CharField(max_length=20)
    model = models.CharField(max_length=200, blank=True)
    pid = models.PositiveIntegerField(null=True, blank=True)
    why_silent = models.CharField(max_length=30, blank=True, help_text="Why it tells nothing at all; empty while it answers.")
    absent = models.JSONField(default=dict, blank=True, help_text="Why a metric has no value, by the metric's name.")
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField(help_text="Right to a minute while it is there.")

    class Meta:
        verbose_name = pgettext_lazy("model", "serving engine")
        verbose_name_plural = pgettext_lazy("model", "serving engines")
        ordering = ("node__name", "name")
        constraints = [models.UniqueConstraint(fields=("node", "name"), name="engine_of_node")]

    def __str__(self) -> str:
        return f"{self.node.name} {self.kind} {self.name}"


class Process(models.Model):
    """A process that holds or held a GPU, with what its agent told of it in words (keys of wire.labels).

    Nobody tells when a process began, and the kernel gives a pid anew: a pid that was not listed for a while and comes
    back with another name or other labels is another process, and has another row.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="processes")
    pid = models.PositiveIntegerField()
    name = models.CharField(max_length=64, blank=True)
    labels = models.JSONField(default=dict)
    told_at = models.DateTimeField(help_text="When its agent said so.")
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField(help_text="Right to a minute while it is there.")

    class Meta:
        verbose_name = pgettext_lazy("model", "process")
        verbose_name_plural = pgettext_lazy("model", "processes")
        ordering = ("-last_seen_at",)
        constraints = [models.UniqueConstraint(fields=("node", "pid", "first_seen_at"), name="process_of_node")]
        indexes = [models.Index(fields=("node", "last_seen_at"), name="process_seen")]

    def __str__(self) -> str:
        return f"{self.node.name} {self.pid} {self.name}"


class Absence(models.Model):
    """From `since` to `until` a metric had no value, for `reason`; `until` is null while it lasts.

    The metric `processes` stands for the list of who holds the GPU: while it is absent, nobody knows whether a job is over.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="absences")
    gpu = models.ForeignKey(Gpu, on_delete=models.CASCADE, null=True, blank=True, related_name="absences")
    metric = models.CharField(max_length=60)
    reason = models.CharField(max_length=30)
    refused = models.BooleanField(default=False, help_text="The server refused the values that came; else the agent says so.")
    since = models.DateTimeField()
    until = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = pgettext_lazy("model", "absence")
        verbose_name_plural = pgettext_lazy("model", "absences")
        indexes = [models.Index(fields=("node", "until"), name="absence_open")]

    def __str__(self) -> str:
        return f"{self.metric} {self.reason}"


class Refusal(models.Model):
    """How many frames of a node were refused under one code, and what the last one said."""

    node_name = models.CharField(max_length=200)
    code = models.CharField(max_length=30)
    total = models.PositiveBigIntegerField(default=0)
    last_at = models.DateTimeField(default=timezone.now)
    last_detail = models.CharField(max_length=300, blank=True)

    class Meta:
        verbose_name = pgettext_lazy("model", "refusal")
        verbose_name_plural = pgettext_lazy("model", "refusals")
        constraints = [models.UniqueConstraint(fields=("node_name", "code"), name="refusal_of_node")]

    def __str__(self) -> str:
        return f"{self.node_name} {self.code} x {self.total}"


class Event(models.Model):
    """An XID, an ECC error, a lost GPU: stored and acked at once, then handed to findings by id.

    `boot` is empty for what the server noticed itself; its `seq` counts for each node.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="events")
    gpu = models.ForeignKey(Gpu, on_delete=models.SET_NULL, null=True, blank=True, related_name="events")
    boot = models.CharField(max_length=64, blank=True)
    seq = models.BigIntegerField()
    kind = models.CharField(max_length=20)
    code = models.IntegerField(null=True, blank=True)
    severity = models.CharField(max_length=10, blank=True, help_text="info, warn or critical, where its source says so.")
    text = models.CharField(max_length=1000, blank=True)
    details = models.JSONField(
        default=dict, blank=True, help_text="What its source says beside: sub-code, address, process (wire.messages.DETAILS)."
    )
    observed_at = models.DateTimeField()
    received_at = models.DateTimeField(default=timezone.now)
    handled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = pgettext_lazy("model", "event")
        verbose_name_plural = pgettext_lazy("model", "events")
        ordering = ("-observed_at",)
        constraints = [models.UniqueConstraint(fields=("node", "boot", "seq"), name="event_once")]
        indexes = [models.Index(fields=("handled_at", "received_at"), name="event_unhandled")]

    def __str__(self) -> str:
        return f"{self.kind} {'' if self.code is None else self.code} on {self.node}"
