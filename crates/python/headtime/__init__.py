"""Disk I/O with deadlines, and the study of disk scheduling.

Drives, requests and batches: :class:`Drive`. A running server: :class:`Server`. Simulations:
:func:`simulate`. Comparisons of policies, in processes or on several machines: :func:`compare`.
The page ``docs/python.md`` of the project describes all of it.
"""

from headtime._errors import (
    BatchError,
    CancelledError,
    ClosedError,
    CommandError,
    DriveError,
    Error,
    FullError,
    InfeasibleError,
    InvalidError,
    OpenError,
    TimedOutError,
    UsageError,
)
from headtime._lab import Comparison, Simulation, compare, simulate, workloads
from headtime._native import (
    Batch,
    BatchDone,
    Drive,
    IoDone,
    Pending,
    Request,
    policies,
    profiles,
    settings,
    workload,
)
from headtime._server import Server

__all__ = [
    "Batch",
    "BatchDone",
    "BatchError",
    "CancelledError",
    "ClosedError",
    "CommandError",
    "Comparison",
    "Drive",
    "DriveError",
    "Error",
    "FullError",
    "InfeasibleError",
    "InvalidError",
    "IoDone",
    "OpenError",
    "Pending",
    "Request",
    "Server",
    "Simulation",
    "TimedOutError",
    "UsageError",
    "compare",
    "policies",
    "profiles",
    "settings",
    "simulate",
    "workload",
    "workloads",
]
