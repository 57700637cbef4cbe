"""Simulations, workloads and comparisons."""

import json
import os
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path

import joblib
import numpy

from headtime import _native
from headtime._errors import CommandError

_RECORD = numpy.dtype(
    [
        ("submitted_ns", "<u8"),
        ("dispatched_ns", "<u8"),
        ("finished_ns", "<u8"),
        ("disk_time_ns", "<u8"),
        ("lba", "<u8"),
        ("sectors", "<u4"),
        ("operation", "<u4"),
        ("stream", "<u4"),
        ("volume", "<u4"),
    ]
)


def _are_several(value):
    """Returns true if a keyword has several values: a list, a tuple, a range, an array."""
    return isinstance(value, Iterable) and not isinstance(value, (str, os.PathLike))


def _flags(options):
    """The flags of a command: each keyword is the flag of this name."""
    flags = []
    for name, value in options.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            flags.append(flag)
            continue
        for one in value if _are_several(value) else [value]:
            flags += [flag, os.fspath(one) if isinstance(one, os.PathLike) else str(one)]
    return flags


class Simulation:
    """The result of :func:`simulate`.

    ``figures`` is the output of ``headtime sim --json``. ``requests`` is a structured NumPy array
    with one record for each request that finished, the warm-up included. The field ``operation``
    is 0 for a read, 1 for a write, 2 for a write of zeroes, 3 for a discard and 4 for a flush.
    """

    def __init__(self, figures, records):
        self.figures = figures
        self.requests = numpy.frombuffer(records, _RECORD)

    @property
    def response_times(self):
        """Seconds from the submission to the completion of each request."""
        return (self.requests["finished_ns"] - self.requests["submitted_ns"]) / 1e9

    @property
    def service_times(self):
        """Seconds from the dispatch to the completion of each request."""
        return (self.requests["finished_ns"] - self.requests["dispatched_ns"]) / 1e9

    def __repr__(self):
        return f"<headtime.Simulation of {len(self.requests)} requests>"


def simulate(**options):
    """Simulates a drive under a policy and a workload in virtual time.

    The keywords are the flags of ``headtime sim``: ``drive``, ``policy``, ``workload``,
    ``clients``, ``requests``, ``seed``, … Same arguments, same result on every machine.
    """
    figures, records = _native.simulate(_flags(options))
    return Simulation(json.loads(figures), records)


def workloads():
    """Returns the workloads that ship: name, description, streams, takes_depth."""
    return json.loads(_native.workloads())


class Comparison:
    """The result of :func:`compare`: the page, the table for people, and ``results.json``."""

    def __init__(self, page, table, results):
        self.page = Path(page)
        self.folder = self.page.parent
        self.table = table
        self.results = results

    def __repr__(self):
        return f"<headtime.Comparison in {str(self.folder)!r}>\n{self.table}"


def _run_job(flags, job):
    """Runs one job in this process, which may be on another machine."""
    return _native.run_job(flags, _native.__file__, job)


def compare(
    policies=None,
    drives=None,
    workloads=None,
    *,
    out="headtime-compare",
    backend=None,
    n_jobs=-1,
    backend_options=None,
    progress=None,
    **options,
):
    """Compares policies on drives and workloads, as ``headtime compare`` does.

    The cells run through joblib: in processes, or where ``backend`` says, such as ``"dask"`` or
    ``"ray"``. ``out`` receives the same files as from ``headtime compare``, byte for byte. Every
    cell is stored as soon as it is finished, and the same call continues where one was cut off.
    ``options`` are the flags of ``headtime compare``: ``depths``, ``seed``, ``replicas``, … Files
    that they name must have the same path and content on every machine.

    ``progress`` is called with the number of finished cells and of all cells, and is None for
    lines on standard error of a terminal.
    """
    depths = options.get("depths")
    if _are_several(depths):
        options["depths"] = ",".join(map(str, depths))
    options = {"policies": policies, "drives": drives, "workloads": workloads, **options}
    flags = _flags({**options, "out": out})
    sweep = _native.Sweep(flags, _native.__file__)
    choose = joblib.parallel_config(backend, **(backend_options or {})) if backend else nullcontext()
    failures = []
    tried = set()
    with choose:
        # The second stage, at equal load, depends on the results of the first.
        while jobs := sweep.jobs():
            if tried.issuperset(jobs):
                raise CommandError(f"{len(jobs)} cells have no result; run the comparison again")
            tried.update(jobs)
            for answer in _answers(flags, jobs, n_jobs):
                failure = sweep.keep(answer)
                if failure is not None:
                    failures.append(failure)
                _tell(progress, *sweep.progress())
    page, table, results = sweep.finish()
    if failures:
        first, count = failures[0], len(failures)
        raise CommandError(f"{count} of the runs failed; the first: {first}. All else is in {page}")
    return Comparison(page, table, json.loads(results))


def _answers(flags, jobs, n_jobs):
    """Runs jobs in the active backend of joblib; yields their answers, in any order."""
    calls = [joblib.delayed(_run_job)(flags, job) for job in jobs]
    # One cell for each task, so that each is stored as soon as it is finished.
    options = {"n_jobs": n_jobs, "batch_size": 1}
    try:
        parallel = joblib.Parallel(**options, return_as="generator_unordered")
    except ValueError:
        # Backends such as Ray's return whole lists only: a few cells for each worker at a time.
        parallel = joblib.Parallel(**options)
        size = 4 * joblib.effective_n_jobs(n_jobs)
        for start in range(0, len(calls), size):
            yield from parallel(calls[start : start + size])
    else:
        yield from parallel(calls)


def _tell(progress, finished, cells):
    if progress is not None:
        progress(finished, cells)
    elif sys.stderr.isatty():
        end = "\n" if finished == cells else ""
        print(f"\rheadtime: {finished} of {cells} cells", end=end, file=sys.stderr, flush=True)
