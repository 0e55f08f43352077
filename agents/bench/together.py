"""An all-reduce over the GPUs of a run, one process each, by torch.distributed and NCCL. What any rank does all do, or they wait for ever."""

from datetime import timedelta
from typing import Any, Final

from agents.bench.arithmetic import all_reduce_bus_bytes, iterations
from agents.bench.cases import Case
from agents.bench.on_gpu import Measured, NoScoreError, score
from agents.bench.timing import by_events, one_s
from wire.sentence import _

PATIENCE_S: Final = 90
"""For ranks to find each other, and for one operation."""


class Ranks:
    """The group, once all have joined."""

    def __init__(self, torch: Any, rank: int, ranks: int, meeting: str) -> None:
        """Join by the file `meeting`, which must not be there before; torch's errors where the others do not come."""
        import importlib

        self._torch = torch
        self._distributed: Any = importlib.import_module("torch.distributed")
        if not self._distributed.is_available() or not self._distributed.is_nccl_available():
            raise NoScoreError(_("this torch was built without NCCL"))
        self._device = f"cuda:{rank}"
        self._distributed.init_process_group(
            "nccl", init_method=f"file://{meeting}", rank=rank, world_size=ranks, timeout=timedelta(seconds=PATIENCE_S)
        )
        self._distributed.all_reduce(torch.ones(1, device=self._device))  # the links are set up with the first one
        torch.cuda.synchronize()

    def measure(self, case: Case) -> Measured:
        """The bus bandwidth of one size on this rank; NoScoreError on all ranks where one lacks the memory."""
        torch = self._torch
        try:
            buffer = torch.zeros(case.size_bytes // 4, device=self._device, dtype=torch.float32)
        except torch.cuda.OutOfMemoryError:
            buffer = None
        if self._agreed(0.0 if buffer is None else 1.0, "MIN") == 0:
            raise NoScoreError(_("a GPU of the run has not enough free memory for it"))

        def op() -> None:
            self._distributed.all_reduce(buffer)

        took = self._agreed(one_s(torch, op), "MAX")  # so that all count alike
        times = by_events(torch, op, iterations(took, case.budget_s))
        return score(case, times, all_reduce_bus_bytes(case.size_bytes, case.ranks), "bytes_per_second")

    def leave(self) -> None:
        """End the group."""
        self._distributed.destroy_process_group()

    def _agreed(self, value: float, how: str) -> float:
        told = self._torch.tensor([value], device=self._device, dtype=self._torch.float64)
        self._distributed.all_reduce(told, op=getattr(self._distributed.ReduceOp, how))
        return float(told.item())
