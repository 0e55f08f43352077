"""From a report to rows: whose GPUs, which time, how many runs; a report that comes again changes nothing."""

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec
from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from advisor.peaks import peak
from fleet.accounts.plain_text import REFUSED, all_plain
from fleet.benches.models import BenchRun, BenchScore
from fleet.benches.peers import is_judged
from fleet.inventory.models import Gpu, Node
from wire.bench import BenchGpu, BenchReport, Score

MAX_AHEAD: Final = timedelta(minutes=1)
MAX_RUNS_A_DAY: Final = 100
"""Of one node: whoever holds its token cannot fill the database."""


class KeepError(Exception):
    """The report cannot be kept; the message is for whoever sent it."""


class TooManyRunsError(KeepError):
    """The node sent as many as a day may have."""


class Kept(NamedTuple):
    """The run's row; whether it was new; UUIDs of GPUs that the node is not known to have, whose scores were left out."""

    run: BenchRun
    is_new: bool
    unknown: tuple[str, ...]


def keep(report: BenchReport, node: Node, now: datetime) -> Kept:
    """Write the report's rows, unless they are there; KeepError where it is not to be kept."""
    at = datetime.fromtimestamp(report.at, UTC)
    if at > now + MAX_AHEAD:
        raise KeepError(gettext("The run begins in the future, by this server's clock: check the node's."))
    if not all_plain(msgspec.to_builtins(report)):
        raise KeepError(str(REFUSED))
    found = BenchRun.objects.filter(node=node, at=at).first()
    gpus = {gpu.uuid: gpu for gpu in Gpu.objects.filter(node=node, uuid__in=[gpu.uuid for gpu in report.gpus])}
    unknown = tuple(gpu.uuid for gpu in report.gpus if gpu.uuid not in gpus)
    if found is not None:
        return Kept(found, False, unknown)
    if report.gpus and not gpus:
        raise KeepError(
            gettext("None of the report's GPUs is known of this node: start its agent once, then send the report again.")
        )
    if BenchRun.objects.filter(node=node, received_at__gt=now - timedelta(days=1)).count() >= MAX_RUNS_A_DAY:
        raise TooManyRunsError(
            gettext("The node sent {number} runs within a day, and no more are kept.").format(number=MAX_RUNS_A_DAY)
        )
    told = {gpu.uuid: gpu for gpu in report.gpus}
    try:
        with transaction.atomic():
            run = BenchRun.objects.create(
                node=node,
                at=at,
                received_at=now,
                seconds=report.seconds,
                protocol=report.protocol,
                shared=report.shared,
                interrupted=report.interrupted,
                versions=report.versions,
                environment=report.environment,
                missing=[msgspec.to_builtins(one) for one in report.missing],
            )
            BenchScore.objects.bulk_create(
                _row(run, score, gpus.get(score.gpu), told.get(score.gpu))
                for score in report.scores
                if not score.gpu or score.gpu in gpus
            )
    except IntegrityError:  # another request was faster
        return Kept(BenchRun.objects.get(node=node, at=at), False, unknown)
    return Kept(run, True, unknown)


def _row(run: BenchRun, score: Score, gpu: Gpu | None, told: BenchGpu | None) -> BenchScore:
    top = None
    if gpu is not None:  # what the agent said of the card, not what the report says
        top = peak(
            gpu.model,
            score.name,
            pcie_gen=gpu.pcie_link_gen_max,
            pcie_width=gpu.pcie_link_width_max,
            nvlink_links=gpu.nvlink_links,
            nvlink_bytes_per_s_per_link=gpu.nvlink_bytes_per_s_per_link,
            compute_capability=gpu.compute_capability,
        )
    return BenchScore(
        run=run,
        gpu=gpu,
        name=score.name,
        value=score.value,
        p5=score.p5,
        p95=score.p95,
        unit=score.unit,
        iterations=score.iterations,
        peak_share=None if top is None else score.value / top,
        judged=gpu is not None and not run.shared and is_judged(score.name),
        power_limit_w=None if told is None else told.power_limit_w,
        settled=None if told is None else told.settled,
        sm_clock_mhz=score.sm_clock_mhz,
        power_w=score.power_w,
        temperature_c=score.temperature_c,
    )
