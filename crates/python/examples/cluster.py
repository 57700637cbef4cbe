"""Runs a comparison on a local cluster, then in one process, and compares the two folders.

    python cluster.py dask      needs distributed; kills one of the two workers half-way
    python cluster.py ray       needs ray

The folders are the same, byte for byte. A cluster of several machines: give the address of Dask's
scheduler to ``Client``, or that of Ray's head node to ``ray.init``.
"""

import os
import pathlib
import signal
import sys
import tempfile

import headtime

PLAN = {
    "policies": ["fcfs", "clook", "sptf", "headtime"],
    "drives": ["atlas10k", "nearline-20tb"],
    "workloads": ["random", "random-beside-sequential"],
    "depths": [4, 16],
}


def compare_on_dask(**plan):
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        killed = []

        def progress(finished, cells):
            if not killed and finished >= cells // 2:
                pid = next(iter(client.run(os.getpid).values()))
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                print(f"killed worker {pid} after {finished} of {cells} cells")

        return headtime.compare(**plan, backend="dask", progress=progress)


def compare_on_ray(**plan):
    import ray
    from ray.util.joblib import register_ray

    ray.init(num_cpus=2, include_dashboard=False)
    register_ray()
    return headtime.compare(**plan, backend="ray", n_jobs=2)


def results(folder):
    """The files of a comparison. The time that a cell took is no result."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes().split(b',"wall_seconds"')[0]
        for path in files
    }


def main():
    cluster = {"dask": compare_on_dask, "ray": compare_on_ray}.get(sys.argv[1] if sys.argv[1:] else "")
    if cluster is None:
        sys.exit("usage: cluster.py dask|ray [requests of a cell]")
    plan = PLAN | {"requests": int(sys.argv[2]) if sys.argv[2:] else 2000}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        print(cluster(**plan, out=folder / "cluster").table)
        headtime.compare(**plan, out=folder / "alone", backend="sequential")
        one, other = results(folder / "cluster"), results(folder / "alone")
    different = [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]
    print(f"{len(one)} files, {len(different)} of them different {different}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
