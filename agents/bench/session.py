"""One run of `fettle bench`: chooses the GPUs, looks who else is there, leads the processes that measure, gathers what they say."""

import importlib.util
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from agents.bench import cases, conditions, disk
from agents.bench.cases import Case, Kind
from agents.bench.choice import BenchRefusedError, chosen
from agents.bench.conditions import SLOPE_C_PER_MIN, Watch, middle
from agents.bench.orders import Order
from agents.bench.workers import START_S, Worker, WorkerError, all_of, started
from agents.device import DriverError
from agents.loop import agent_version
from agents.nvml_device import NvmlDevice, NvmlDriver
from wire.bench import BenchReport, Missing, Score
from wire.sentence import Sentence, _, of
from wire.terminal import printable

SETTLE_S: Final = 240.0
QUICK_SETTLE_S: Final = 5.0
WINDOW_S: Final = 60.0
"""Over which the temperature's slope is taken: it is told in whole degrees."""
_PATIENCE_S: Final = 60.0
_JOIN_S: Final = 150.0
"""Longer than torch itself waits for the other ranks."""
_LEAVES_S: Final = 5.0
"""In which the driver forgets a process that has ended."""
_ENVIRONMENT: Final = ("NCCL_", "CUDA_MODULE_LOADING", "CUBLAS_", "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")
NO_TORCH: Final = _(
    "torch is not installed for this Python ({python}), and it does the measuring: install it (pip install torch), or start fettle bench"
    " with the Python that has it. Only --only disk goes without."
)


class Settings(Struct, frozen=True, kw_only=True):
    """What is asked of a run. `only`: kinds of tests, all of them where it is empty."""

    node: str
    quick: bool = False
    only: tuple[Kind, ...] = ()
    gpus: str | None = None  # as CUDA_VISIBLE_DEVICES has them; None: that variable's, or all
    beside_others: bool = False
    settle_s: float | None = None
    disk: Path | None = None
    sys: Path = Path("/sys")

    def wants(self, kind: Kind) -> bool:
        """True where tests of this kind are asked for."""
        return (not self.only or kind in self.only) and (kind != "disk" or self.disk is not None)


class Run:
    """What has come of one run so far; `report` may be asked for at any time, so that an interrupt keeps what was measured."""

    def __init__(self, settings: Settings, say: Callable[[str], None], driver: NvmlDriver | None = None) -> None:
        self._settings = settings
        self._say = say
        self._driver = NvmlDriver() if driver is None else driver
        self._began = time.time()
        self._gpus: Sequence[NvmlDevice] = ()
        self._cpus: list[str] = []
        self._clocks: list[float | None] = []
        self._watch: Watch | None = None
        self._settled: list[tuple[bool | None, float | None]] = []
        self._scores: list[Score] = []
        self._missing: list[Missing] = []
        self._versions: dict[str, str] = {"python": platform.python_version(), "fettle": agent_version()}
        self._shared = False
        self.interrupted = False

    def go(self) -> None:
        """Measure; BenchRefusedError where it cannot begin. An interrupt ends it, and `report` says so."""
        try:
            if any(self._settings.wants(kind) for kind in cases.KINDS if kind != "disk"):
                self._on_gpus()
            if self._settings.wants("disk"):
                self._on_disk()
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            if self._watch is None or self._watch.close():
                self._driver.close()

    def report(self) -> BenchReport:
        """What was measured, and what was not."""
        watch = self._watch
        return BenchReport(
            node=self._settings.node,
            at=round(self._began, 3),
            seconds=round(time.time() - self._began, 1),
            protocol="quick" if self._settings.quick else "full",
            shared=self._shared,
            interrupted=self.interrupted,
            versions=self._versions,
            environment={
                name: printable(text)[:100] for name, text in sorted(os.environ.items()) if name.startswith(_ENVIRONMENT)
            },
            gpus=()
            if watch is None
            else tuple(
                conditions.of_gpu(gpu.facts, watch, number, self._cpus[number], self._clocks[number], *self._settled[number])
                for number, gpu in enumerate(self._gpus)
            ),
            scores=tuple(self._scores),
            missing=tuple(self._missing),
        )

    def _on_disk(self) -> None:
        folder = self._settings.disk
        assert folder is not None  # noqa: S101 - it is wanted
        self._say(Sentence(_("disk: {folder}"), folder=folder))
        for name, found in disk.measure(folder, quick=self._settings.quick):
            if isinstance(found, Score):
                self._scores.append(found)
            else:
                self._missing.append(Missing(name=name, reason=printable(found)[:300]))

    def _on_gpus(self) -> None:
        if importlib.util.find_spec("torch") is None:
            raise BenchRefusedError(Sentence(NO_TORCH, python=platform.python_version()))
        try:
            devices = [one for one in self._driver.open() if isinstance(one, NvmlDevice)]
        except DriverError as error:
            raise BenchRefusedError(Sentence(_("the GPUs cannot be read: {why}"), why=error)) from None
        versions = self._driver.versions()
        self._versions |= {"driver": versions.driver or "", "cuda_driver": versions.cuda or ""}
        self._gpus = chosen(devices, self._settings.gpus, os.environ)
        self._look_for_others()
        self._cpus = [conditions.local_cpus(gpu.facts.pci_bus_id, self._settings.sys) for gpu in self._gpus]
        self._clocks = [conditions.set_clock(gpu) for gpu in self._gpus]
        self._settled = [(None, None)] * len(self._gpus)
        self._watch = Watch(self._gpus)
        environment = {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": ",".join(gpu.facts.uuid for gpu in self._gpus),
        }
        try:
            workers = started(self._cpus, environment)
        except WorkerError as error:
            raise BenchRefusedError(of(error)) from None
        try:
            self._measure(workers)
        finally:
            for worker in workers:
                if self.interrupted or worker.gone:
                    worker.kill()
            for worker in workers:
                worker.end()
        self._look_for_others(afterwards=True)

    def _held(self) -> dict[int, str]:
        return {gpu.facts.index: who for gpu in self._gpus if (who := conditions.holders(gpu))}

    def _look_for_others(self, *, afterwards: bool = False) -> None:
        held = self._held()
        until = time.monotonic() + (_LEAVES_S if afterwards else 0.0)
        while held and time.monotonic() < until:  # what the processes of the run held may be told of a moment longer
            time.sleep(0.5)
            held = self._held()
        if not held:
            return
        told = "; ".join(f"GPU {index} by {who}" for index, who in held.items())
        if not self._settings.beside_others and not afterwards:
            raise BenchRefusedError(
                Sentence(
                    _(
                        "the GPUs are in use: {who}. End that first, or measure beside it with --beside-others: the result is marked, and no GPU is judged by it."
                    ),
                    who=told,
                )
            )
        self._shared = True
        self._say(Sentence(_("in use by others, the result is marked: {who}"), who=told))

    def _measure(self, workers: list[Worker]) -> None:
        try:
            until = time.monotonic() + START_S
            for worker in workers:
                said = worker.hear(until)
                if said is None or said.what != "ready":
                    raise BenchRefusedError(
                        said.reason if said is not None and said.reason else worker.gone or Sentence(_("no GPU could be used"))
                    )
                self._versions |= said.versions
            self._settle(workers)
            quick = self._settings.quick
            for kind in ("matmul", "memory"):
                if self._settings.wants(kind):
                    make = cases.matmuls if kind == "matmul" else cases.memory
                    self._at_once(workers, [list(make(gpu.facts, quick=quick)) for gpu in self._gpus])
            for worker in workers:  # one after the other: they share the host's memory and its links
                if self._settings.wants("host"):
                    self._alone(worker, cases.host(quick=quick))
                if self._settings.wants("peer"):
                    self._alone(worker, cases.peer(worker.number, len(workers), quick=quick))
            if self._settings.wants("all_reduce") and len(workers) > 1:
                self._together(workers)
        except KeyboardInterrupt:
            self.interrupted = True
            raise

    def _settle(self, workers: list[Worker]) -> None:
        """Load the GPUs until their temperatures hardly change, or the time for that is up."""
        bound = self._settings.settle_s
        bound = (QUICK_SETTLE_S if self._settings.quick else SETTLE_S) if bound is None else bound
        if bound <= 0:
            return
        self._say(Sentence(_("load until temperatures settle, {seconds:.0f} s at most"), seconds=bound))
        for worker in workers:
            worker.tell(Order(do="soak"))
        until = time.monotonic() + bound
        assert self._watch is not None  # noqa: S101
        slopes: list[float | None] = []
        while time.monotonic() < until:
            time.sleep(min(1.0, bound))
            slopes = [self._watch.slope(number, WINDOW_S) for number in range(len(workers))]
            if all(slope is not None and abs(slope) < SLOPE_C_PER_MIN for slope in slopes):
                break
        if bound < WINDOW_S:
            slopes = [self._watch.slope(number, bound) for number in range(len(workers))]
        self._settled = [
            (None if bound < WINDOW_S else slope is not None and abs(slope) < SLOPE_C_PER_MIN, slope) for slope in slopes
        ]
        orders = {worker.number: Order(do="leave") for worker in workers}
        all_of(workers, orders, _PATIENCE_S)  # the soak's own answer
        for worker in workers:
            worker.hear(time.monotonic() + _PATIENCE_S)

    def _at_once(self, workers: Sequence[Worker], wanted: Sequence[Sequence[Case]]) -> None:
        """Test after test, on all GPUs at the same time."""
        for turn in range(max(map(len, wanted), default=0)):
            self._ask(workers, {number: own[turn] for number, own in enumerate(wanted) if turn < len(own)})

    def _alone(self, worker: Worker, wanted: Iterable[Case]) -> None:
        for case in wanted:
            self._ask([worker], {worker.number: case})

    def _together(self, workers: Sequence[Worker]) -> None:
        """All-reduces; where one process is gone the others cannot be joined."""
        wanted = list(cases.all_reduces(len(workers), quick=self._settings.quick))
        with tempfile.TemporaryDirectory(prefix="fettle-bench-") as folder:  # torch looks into it for as long as the group lasts
            gone = self._joined(workers, f"{folder}/meeting")
            for case in wanted if not gone else ():
                self._ask(workers, {worker.number: case for worker in workers})
            if not gone:
                all_of(workers, {worker.number: Order(do="leave") for worker in workers}, _PATIENCE_S)
        if gone:
            self._missing += [
                Missing(name=case.name, gpu=gpu.facts.uuid, reason=printable(f"the GPUs could not be joined: {gone}")[:300])
                for case in wanted
                for gpu in self._gpus
            ]

    def _joined(self, workers: Sequence[Worker], meeting: str) -> str:
        """Make the ranks one group; why that failed, or nothing."""
        if gone := next((worker.gone for worker in workers if worker.gone), ""):
            return gone
        order = Order(do="join", meeting=meeting)
        joined = all_of(workers, {worker.number: order for worker in workers}, _JOIN_S)
        failed = [answer for answer in joined if answer.said is None or answer.said.what != "done"]
        return next(((one.said.reason if one.said else one.worker.gone) or _("no reason is told") for one in failed), "")

    def _ask(self, workers: Sequence[Worker], wanted: Mapping[int, Case]) -> None:
        """One test on some GPUs at the same time; what comes of it is kept."""
        names = list(dict.fromkeys(case.name for case in wanted.values()))
        where = ", ".join(str(self._gpus[number].facts.index) for number in wanted)
        self._say(f"GPU {where}: {', '.join(names)}")
        patience_s = _PATIENCE_S + 6 * max(case.budget_s for case in wanted.values())
        orders = {number: Order(do="measure", case=case) for number, case in wanted.items()}
        for worker, said in all_of(workers, orders, patience_s):
            uuid, case = self._gpus[worker.number].facts.uuid, wanted[worker.number]
            if said is not None and said.score is not None:
                self._keep(worker.number, replace(said.score, gpu=uuid), said.began, said.ended)
            else:
                why = worker.gone if said is None else said.reason
                self._missing.append(Missing(name=case.name, gpu=uuid, reason=printable(why or _("it gave no score"))[:300]))

    def _keep(self, number: int, score: Score, began: float, ended: float) -> None:
        assert self._watch is not None  # noqa: S101
        read = self._watch.of(number, began, ended)
        self._scores.append(
            replace(
                score,
                sm_clock_mhz=middle([one.sm_clock_mhz for one in read]),
                power_w=middle([one.power_w for one in read]),
                temperature_c=middle([one.temperature_c for one in read]),
            )
        )
