"""Runs of `fettle bench` and their scores; rows are written once and go by their age."""

from django.db import models
from django.utils import timezone
from django.utils.translation import pgettext_lazy

from fleet.inventory.models import Gpu, Node


class BenchRun(models.Model):
    """One run on one node, as its report told it."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="bench_runs")
    at = models.DateTimeField(help_text="When it began, by the node's clock.")
    received_at = models.DateTimeField(default=timezone.now)
    seconds = models.FloatField()
    protocol = models.CharField(max_length=10, help_text="full or quick: their scores are not compared with each other.")
    shared = models.BooleanField(default=False, help_text="Other processes held the GPUs: nothing is judged by it.")
    interrupted = models.BooleanField(default=False)
    versions = models.JSONField(default=dict, help_text="Driver, CUDA, NCCL, torch and others, by name.")
    environment = models.JSONField(default=dict, help_text="Variables that bear on the scores.")
    missing = models.JSONField(default=list, help_text="Tests without a score: name, GPU's UUID and reason.")

    class Meta:
        verbose_name = pgettext_lazy("model", "bench run")
        verbose_name_plural = pgettext_lazy("model", "bench runs")
        ordering = ("-at", "-id")
        constraints = [models.UniqueConstraint(fields=("node", "at"), name="bench_run_once")]
        indexes = [
            models.Index(fields=("-at",), name="bench_run_newest"),
            models.Index(fields=("received_at",), name="bench_run_received"),
        ]

    def __str__(self) -> str:
        return f"{self.node.name} {self.at:%Y-%m-%d %H:%M}"


class BenchScore(models.Model):
    """One test of one GPU in a run; of the node itself where `gpu` is null. More is better."""

    run = models.ForeignKey(BenchRun, on_delete=models.CASCADE, related_name="scores")
    gpu = models.ForeignKey(Gpu, on_delete=models.CASCADE, null=True, blank=True, related_name="bench_scores")
    name = models.CharField(max_length=60)
    value = models.FloatField(help_text="By the median of its iterations, in `unit`.")
    p5 = models.FloatField(help_text="The rate of its slow iterations.")
    p95 = models.FloatField()
    unit = models.CharField(max_length=20, help_text="flop_per_second or bytes_per_second.")
    iterations = models.PositiveIntegerField()
    peak_share = models.FloatField(null=True, blank=True, help_text="Of the card's published peak; null where none is known.")
    judged = models.BooleanField(default=False, help_text="GPUs are compared by it.")
    power_limit_w = models.FloatField(null=True, blank=True)
    settled = models.BooleanField(null=True, help_text="Whether the temperature had settled; null: it was not waited for.")
    sm_clock_mhz = models.FloatField(null=True, blank=True, help_text="Median while it was timed.")
    power_w = models.FloatField(null=True, blank=True)
    temperature_c = models.FloatField(null=True, blank=True)

    class Meta:
        verbose_name = pgettext_lazy("model", "bench score")
        verbose_name_plural = pgettext_lazy("model", "bench scores")
        ordering = ("id",)
        constraints = [models.UniqueConstraint(fields=("run", "gpu", "name"), name="bench_score_once")]
        indexes = [models.Index(fields=("gpu", "name"), condition=models.Q(judged=True), name="bench_score_judged")]

    def __str__(self) -> str:
        return f"{self.name} {self.value:.4g}"
