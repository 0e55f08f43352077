"""Reports a training script's steps to the Fettle agent of its node: `fettle_report.step(samples=256, loss=0.31)` in each.

One file without dependencies, for Python 3.8 and newer: install it or copy it. A step that is reported never waits, never raises
and costs a microsecond or two; without an agent nothing happens. The agent knows who reports from the kernel.
"""

import json
import math
import os
import socket
import sys
import threading
import time
from numbers import Real

PLACES = ("/run/fettle/report.sock", os.path.join(os.environ.get("XDG_RUNTIME_DIR", "/nowhere"), "fettle/report.sock"))
"""Where the agent listens, unless FETTLE_REPORT_SOCKET says otherwise."""
SEND_S = 0.5  # quicker steps share a datagram: it holds sums since the start, so that one more or less loses nothing
RETRY_S = 5.0
TORCH_S = 1.0


def step(samples=None, loss=None, data_wait_s=None, loss_scale=None, *_more, **_unknown):
    """Tell that a step has ended; its time is that since the call before. Give plain numbers: a tensor is left out, since
    reading it would wait for the GPU. `data_wait_s` is the part of the step that waited for its data. Words that another version
    knows, or that are misspelt, are left out."""
    try:
        _reporter.step(samples, loss, data_wait_s, loss_scale)
    except Exception:  # whatever it is, the training goes on
        return


class _Reporter:
    def __init__(self):
        self.busy = threading.Lock()
        self.socket = self.last = None
        self.send_at = self.retry_at = self.torch_at = 0.0
        self.told = dict.fromkeys(("steps", "timed", "waits", "loss_not_finite", "dropped"), 0)
        self.told.update(step_s=0.0, wait_s=0.0, samples=0.0, sampled_s=0.0)

    def step(self, samples, loss, wait_s, loss_scale):
        samples, loss, wait_s, loss_scale = map(_number, (samples, loss, wait_s, loss_scale))
        if self.busy.acquire(False):  # another thread, or the code that a signal handler interrupted, is at it
            try:
                self._count(time.monotonic(), samples, loss, wait_s, loss_scale)
            finally:
                self.busy.release()

    def _count(self, now, samples, loss, wait_s, loss_scale):
        told, took = self.told, None if self.last is None else now - self.last
        self.last = now
        told["steps"] += 1
        if took is not None:
            told["timed"] += 1
            told["step_s"] += took
            if samples is not None and 0 <= samples < 1e12:
                told["samples"] += samples
                told["sampled_s"] += took
        if wait_s is not None and 0 <= wait_s < 1e6:
            told["waits"] += 1
            told["wait_s"] += wait_s
        if loss is not None:
            told["loss"] = loss if math.isfinite(loss) else None
            told["loss_not_finite"] += told["loss"] is None
        if loss_scale is not None and math.isfinite(loss_scale):
            told["loss_scale"] = loss_scale
        if now >= self.send_at:
            self.send_at = now + SEND_S
            self._send(now)

    def _send(self, now):
        if self.socket is None:
            if now < self.retry_at:
                return
            self.retry_at = now + RETRY_S
            self.socket = _connected()
        if self.socket is None:
            return
        if now >= self.torch_at:
            self.torch_at = now + TORCH_S
            self.told.update(_allocator())
        try:
            self.socket.send(json.dumps(self.told).encode())
        except BlockingIOError:
            self.told["dropped"] += 1
        except OSError:
            self.socket.close()
            self.socket = None


def _number(value):
    if type(value) is float or value is None:
        return value
    try:
        return float(value) if isinstance(value, Real) else None
    except OverflowError:
        return None


def _connected():
    """A socket to the agent that never blocks; None without an agent."""
    named = os.environ.get("FETTLE_REPORT_SOCKET")
    for place in (named,) if named else PLACES:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        link.setblocking(False)
        try:
            link.connect(place)
            return link
        except OSError:
            link.close()
    return None


def _allocator():
    """What PyTorch's allocator counts, where the program has loaded PyTorch and begun to use a GPU."""
    try:
        cuda = sys.modules["torch"].cuda
        stats = cuda.memory_stats() if cuda.is_initialized() else {}
        found = {"alloc_peak_bytes": stats["allocated_bytes.all.peak"], "alloc_retries": stats["num_alloc_retries"]}
        return {name: int(_number(value)) for name, value in found.items()}  # nothing else may get into what is sent
    except Exception:  # no torch, not all of it yet, or another one than is known; or one that answers with no number
        return {}


def _begin_anew():
    global _reporter
    _reporter = _Reporter()


_begin_anew()
if hasattr(os, "register_at_fork"):  # not where there is no fork
    os.register_at_fork(after_in_child=_begin_anew)
