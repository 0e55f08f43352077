"""Before and after: training that saves its weights again and again."""

import time
import warnings
from collections.abc import Callable
from typing import Any, Final

import torch

from lab.loop import Measured, program, work
from lab.models import block, step_of
from lab.scratch import folder

BETWEEN_S: Final = 2.5
ROWS: Final = 8192
Save = Callable[[dict[str, Any]], None]


def _saving(seconds: float, save: Save) -> Measured:
    """Whole rounds of a save and BETWEEN_S of training, after one that does not count. 1.2 GB a save."""
    model = block(3072, 4)
    x = torch.randn(ROWS, 3072, device="cuda")
    step = step_of(model, torch.optim.AdamW(model.parameters(), fused=True), lambda: x, bf16=True)

    def rounds() -> int:
        save(model.state_dict())
        return work(BETWEEN_S, step, least=3)

    work(0.5, step, least=3)
    rounds()
    began, steps = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        steps += rounds()
    return Measured("rows", steps * ROWS, time.monotonic() - began)


@program
def save_and_wait(seconds: float) -> Measured:
    """checkpoint: `torch.save` between steps."""
    file = folder() / "checkpoint.pt"
    return _saving(seconds, lambda state: torch.save(state, file))


@program
def save_in_background(seconds: float) -> Measured:
    """The same weights by `async_save` of torch.distributed.checkpoint, the one before waited for."""
    import torch.distributed.checkpoint as dcp

    warnings.simplefilter("ignore")  # of saving without ranks, and over the save before
    # As torch.save, which leaves writing to the page cache; the staged copy is pinned and used again.
    place = folder() / "checkpoint"
    writer = dcp.FileSystemWriter(place, sync_files=False, cache_staged_state_dict=True, overwrite=True)
    saving: list[Any] = []

    def wait() -> None:
        if saving:
            last = saving.pop()
            getattr(last, "upload_completion", last).result()

    def save(state: dict[str, Any]) -> None:
        wait()
        saving.append(dcp.async_save({"model": state}, storage_writer=writer, checkpoint_id=place))

    done = _saving(seconds, save)
    wait()
    return done
