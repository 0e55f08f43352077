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
from collections import deque
from numbers import Real

PLACES = ("/run/fettle/report.sock", os.path.join(os.environ.get("XDG_RUNTIME_DIR", "/nowhere"), "fettle/report.sock"))
"""Where the agent listens, unless FETTLE_REPORT_SOCKET says otherwise."""
SEND_S = 0.5  # quicker steps share a datagram: it holds sums since the start, so that one more or less loses nothing
RETRY_S = 5.0
TORCH_S = 1.0
DESCRIBE_S = 30.0  # what describes the run travels when it changes, and so often, for an agent that missed it or began later
LAST = 1024  # steps whose times and gradient norms a step is compared with
FEW = 20  # with fewer of them nothing is compared
SPIKE, SLOW = 10.0, 5.0
MAX_FACTS, MAX_NAME, MAX_DESCRIPTION = 32, 30, 640  # the last in bytes: an agent takes datagrams of 2,048


def step(
    samples=None,
    loss=None,
    data_wait_s=None,
    loss_scale=None,
    *_more,
    tokens=None,
    h2d_s=None,
    comm_s=None,
    grad_norm=None,
    **_unknown,
):
    """Tell that a step has ended; its time is that since the call before. Give plain numbers: a tensor is left out, since
    reading it would wait for the GPU. `data_wait_s` is the part of the step that waited for its data, `h2d_s` for copies to the
    GPU, `comm_s` for communication with other GPUs that no computing hid; `grad_norm` is the gradients' norm before clipping.
    Words that another version knows, or that are misspelt, are left out."""
    try:
        _reporter.step(samples, loss, data_wait_s, loss_scale, tokens, h2d_s, comm_s, grad_norm)
    except Exception:  # whatever it is, the training goes on
        return


def checkpoint(seconds=None, bytes=None, *_more, **_unknown):
    """Tell that a checkpoint was saved: how long the training waited for it, and how large it is."""
    try:
        _reporter.checkpoint(seconds, bytes)
    except Exception:
        return


def oom(*_more, **_unknown):
    """Tell that the script caught an out-of-memory error and goes on. Those that PyTorch's allocator counts are known without."""
    try:
        _reporter.oom()
    except Exception:
        return


def describe(*_more, **facts):
    """Tell what the model and the run are: `describe(params=7e9, layers=32, seq=4096, dtype="bf16", sharding="fsdp")`. What was
    told before stays; None takes a fact back. docs/reference/labels.md lists the names."""
    try:
        _reporter.describe(facts)
    except Exception:
        return


class _Median:
    """The median of the last LAST numbers; they are sorted anew when a quarter more have come."""

    def __init__(self):
        self.last = deque(maxlen=LAST)
        self.due = 1
        self.value = None

    def add(self, number):
        last = self.last
        last.append(number)
        self.due -= 1
        if self.due <= 0:
            count = len(last)
            self.due = max(1, count // 4)
            if count >= FEW:
                self.value = sorted(last)[count // 2]


class _Reporter:
    def __init__(self):
        self.busy = threading.Lock()
        self.socket = self.last = self.loss = self.saved_at = None
        self.send_at = self.retry_at = self.torch_at = self.describe_at = 0.0
        self.facts = None
        self.times, self.norms = _Median(), _Median()
        self.told = dict.fromkeys(("steps", "timed", "waits", "loss_not_finite", "slow_steps", "dropped"), 0)
        self.told.update(step_s=0.0, wait_s=0.0, samples=0.0, sampled_s=0.0, step_max_s=0.0)

    def step(self, samples, loss, wait_s, loss_scale, *more):
        samples, loss, wait_s, loss_scale = map(_number, (samples, loss, wait_s, loss_scale))
        if self.busy.acquire(False):  # another thread, or the code that a signal handler interrupted, is at it
            try:
                self._count(time.monotonic(), samples, loss, wait_s, loss_scale, more)
            finally:
                self.busy.release()

    def checkpoint(self, seconds, size):
        seconds, size = _number(seconds), _number(size)
        if self._begin():
            self.saved_at = time.monotonic()
            self.told["checkpoints"] = self.told.get("checkpoints", 0) + 1
            self.told["checkpoint_s"] = seconds if seconds is not None and 0 <= seconds < 1e6 else None
            self.told["checkpoint_bytes"] = int(size) if size is not None and 0 <= size < 1 << 53 else None
            self._end()

    def oom(self):
        if self._begin():
            self.told["ooms"] = self.told.get("ooms", 0) + 1
            self._end()

    def describe(self, facts):
        self.facts = _bounded({**(self.facts or {}), **facts})
        self.describe_at = 0.0
        if self._begin():
            self.describe_at = 0.0  # another thread may just have sent the older ones
            self._end()

    def _begin(self):
        return self.busy.acquire(True, 0.01)  # what is told seldom may wait for a step to be counted

    def _end(self):
        try:
            self._send(time.monotonic())
        finally:
            self.busy.release()

    def _count(self, now, samples, loss, wait_s, loss_scale, more):
        told, took = self.told, None if self.last is None else now - self.last
        self.last = now
        told["steps"] += 1
        if took is not None:
            told["timed"] += 1
            told["step_s"] += took
            if took > told["step_max_s"]:
                told["step_max_s"] = took
            median = self.times.value
            if median is not None and took > SLOW * median:
                told["slow_steps"] += 1
            self.times.add(took)
            if samples is not None and 0 <= samples < 1e12:
                told["samples"] += samples
                told["sampled_s"] += took
        if wait_s is not None and 0 <= wait_s < 1e6:
            told["waits"] += 1
            told["wait_s"] += wait_s
        if loss is not None:
            told["loss_still"] = told["loss_still"] + 1 if loss == self.loss else 0
            self.loss = told["loss"] = loss if math.isfinite(loss) else None
            told["loss_not_finite"] += told["loss"] is None
        if loss_scale is not None and math.isfinite(loss_scale):
            told["loss_scale"] = loss_scale
        if more != (None, None, None, None):
            self._count_more(took, *map(_number, more))
        if now >= self.send_at:
            self.send_at = now + SEND_S
            self._send(now)

    def _count_more(self, took, tokens, h2d_s, comm_s, grad_norm):
        told = self.told
        if tokens is not None and took is not None and 0 <= tokens < 1e12:
            told["tokens"] = told.get("tokens", 0.0) + tokens
            told["tokens_s"] = told.get("tokens_s", 0.0) + took
        if h2d_s is not None and 0 <= h2d_s < 1e6:
            told["h2ds"] = told.get("h2ds", 0) + 1
            told["h2d_s"] = told.get("h2d_s", 0.0) + h2d_s
        if comm_s is not None and 0 <= comm_s < 1e6:
            told["comms"] = told.get("comms", 0) + 1
            told["comm_s"] = told.get("comm_s", 0.0) + comm_s
        if grad_norm is not None:
            is_norm = 0 <= grad_norm < 1e30  # mixed precision makes infinite ones now and then, and skips the step
            told["grad_norm"] = grad_norm if is_norm else None
            told["grad_norm_spikes"] = told.get("grad_norm_spikes", 0)
            if is_norm:
                median = self.norms.value
                if median is not None and grad_norm >= SPIKE * median > 0:
                    told["grad_norm_spikes"] += 1
                self.norms.add(grad_norm)

    def _send(self, now):
        if self.socket is None:
            if now < self.retry_at:
                return
            self.retry_at = now + RETRY_S
            self.socket = _connected()
            self.describe_at = 0.0  # another agent, which knows nothing of it
        if self.socket is None:
            return
        told = self.told
        if now >= self.torch_at:
            self.torch_at = now + TORCH_S
            told.update(_allocator())
        if self.saved_at is not None:
            told["since_checkpoint_s"] = now - self.saved_at
        describes = self.facts is not None and now >= self.describe_at
        try:
            self.socket.send(_datagram({**told, "described": self.facts} if describes else told))
        except BlockingIOError:
            told["dropped"] += 1
            return
        except OSError:
            self.socket.close()
            self.socket = None
            return
        told["step_max_s"] = 0.0  # the longest of those that no datagram has told yet
        if describes:
            self.describe_at = now + DESCRIBE_S


def _datagram(told):
    return json.dumps(told, separators=(",", ":")).encode()


def _bounded(facts):
    """The facts that may be told, the first ones where there are too many."""
    kept = {name: _fact(value) for name, value in facts.items() if len(name) <= MAX_NAME}
    pairs = [(name, value) for name, value in kept.items() if value is not None][:MAX_FACTS]
    while len(_datagram(dict(pairs))) > MAX_DESCRIPTION:
        pairs.pop()
    return dict(pairs)


def _fact(value):
    """A number, a boolean or a short word as it may be told; None for anything else."""
    if isinstance(value, (bool, type(None))):
        return value
    if isinstance(value, str):
        return value if len(value) <= 40 and value.isascii() and value.isprintable() else None
    number = _number(value)
    if number is None or not abs(number) < 1e18:
        return None
    return int(number) if number == int(number) else number


def _number(value):
    if type(value) is float or value is None:
        return value
    try:
        return float(value) if isinstance(value, Real) else None
    except OverflowError:
        return None


ALLOCATOR = {
    "alloc_peak_bytes": "allocated_bytes.all.peak",
    "alloc_retries": "num_alloc_retries",
    "reserved_peak_bytes": "reserved_bytes.all.peak",
    "alloc_ooms": "num_ooms",
}


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
        found = {name: stats[known] for name, known in ALLOCATOR.items() if known in stats}
        return {name: int(_number(value)) for name, value in found.items()}  # nothing else may get into what is sent
    except Exception:  # no torch, not all of it yet, or another one than is known; or one that answers with no number
        return {}


def _begin_anew():
    global _reporter
    _reporter = _Reporter()


_begin_anew()
if hasattr(os, "register_at_fork"):  # not where there is no fork
    os.register_at_fork(after_in_child=_begin_anew)
