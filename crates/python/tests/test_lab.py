"""Simulations, workloads, comparisons, and the control socket."""

import json
import os
import pathlib
import tempfile
import unittest

import headtime

SMALL = {
    "policies": ["fcfs", "sptf"],
    "drives": "atlas10k",
    "workloads": "random",
    "depths": [2, 4],
    "requests": 200,
}


class Simulations(unittest.TestCase):
    def test_a_simulation_has_figures_and_arrays(self):
        run = headtime.simulate(drive="atlas10k", policy="sptf", clients=8, requests=500)
        again = headtime.simulate(drive="atlas10k", policy="sptf", clients=8, requests=500)
        self.assertEqual(run.figures["requests"], 500)
        self.assertEqual(run.figures, again.figures)
        self.assertEqual(run.requests.tobytes(), again.requests.tobytes())
        self.assertEqual(set(run.requests["operation"]), {0})
        self.assertTrue((run.requests["sectors"] > 0).all())
        self.assertTrue((run.service_times <= run.response_times).all())
        # The first tenth is the warm-up.
        mean = run.response_times[50:550].mean() * 1e3
        self.assertAlmostEqual(mean / run.figures["response_ms"]["mean"], 1, places=2)
        with self.assertRaisesRegex(headtime.UsageError, "speedy"):
            headtime.simulate(policy="speedy")
        with self.assertRaisesRegex(headtime.UsageError, "^unexpected argument '--polciy' found"):
            headtime.simulate(polciy="sptf")

    def test_the_tables_have_what_the_program_lists(self):
        self.assertIn("random", {one["name"] for one in headtime.workloads()})
        self.assertIn("[[stream]]", headtime.workload("random"))
        self.assertIn("atlas10k", headtime.profiles())
        self.assertIn("cds-scan", {name for name, _, _ in headtime.policies()})


class Comparisons(unittest.TestCase):
    def test_a_comparison_is_resumed_and_the_same_in_processes_and_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            stopped = []

            def stop(finished, cells):
                stopped.append(finished)
                raise KeyboardInterrupt

            with self.assertRaises(KeyboardInterrupt):
                headtime.compare(**SMALL, out=folder / "a", n_jobs=1, progress=stop)
            self.assertEqual(len(list((folder / "a/cells").glob("*.json"))), 1)
            resumed = headtime.compare(**SMALL, out=folder / "a", n_jobs=1)
            parallel = headtime.compare(**SMALL, out=folder / "b", backend="loky", n_jobs=2)
            for name in ["results.csv", "summary.csv", "results.json", "report.html"]:
                texts = [(folder / part / name).read_bytes() for part in "ab"]
                self.assertEqual(*texts, name)
            self.assertEqual(resumed.results, parallel.results)
            self.assertIn("sptf", resumed.table)
            self.assertEqual(json.loads((folder / "a/results.json").read_text()), resumed.results)

    def test_a_file_that_has_changed_is_read_again(self):
        with tempfile.TemporaryDirectory() as folder:
            workload = pathlib.Path(folder) / "mine.toml"
            plan = {**SMALL, "workloads": workload, "depths": range(2, 3), "out": f"{folder}/out"}
            rates = []
            for size in ["4KiB", "1MiB"]:
                workload.write_text(f'[[stream]]\nsize = "{size}"\n')
                run = headtime.compare(**plan, n_jobs=1)
                rates.append(run.results["cases"][0]["policies"][0]["metrics"]["iops"]["value"])
            self.assertGreater(rates[0], rates[1])

    def test_processes_write_the_folder_of_the_command_byte_for_byte(self):
        alone = pathlib.Path(os.environ["HEADTIME_TEST_COMPARISON"])
        with tempfile.TemporaryDirectory() as folder:
            headtime.compare(**SMALL, out=folder, backend="loky", n_jobs=2)
            one, other = results(alone), results(pathlib.Path(folder))
        self.assertEqual(one.keys(), other.keys())
        self.assertIn("report.html", one)
        cells = [one[name] for name in one if name.startswith("cells/")]
        self.assertTrue(len(cells) >= 4 and all(cells))
        for name in one:
            self.assertEqual(one[name], other[name], name)


def results(folder):
    """The files of a comparison. The build that ran a cell and its wall time are no results."""
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    for name in files:
        if name.startswith("cells/"):
            outcome = files[name].partition(b'"decisive"')[2]
            files[name] = outcome.partition(b',"wall_seconds"')[0]
    return files


class Servers(unittest.TestCase):
    def test_a_missing_server_is_named(self):
        with self.assertRaisesRegex(ConnectionError, "/nothing/here.control"):
            headtime.Server(control="/nothing/here.control")
        self.assertIn("volume.list", headtime.Server.verbs())

    def test_a_server_answers_and_is_tuned(self):
        server = headtime.Server(control=os.environ["HEADTIME_TEST_CONTROL"])
        self.assertEqual([one["name"] for one in server.volumes()["volumes"]], ["video"])
        self.assertIn("volumes", server.status())
        before = server.tunables("lookahead_k", "policy")
        self.assertEqual(set(before), {"lookahead_k", "policy"})
        changed = server.set(lookahead_k=6)
        self.assertEqual([one["name"] for one in changed], ["lookahead_k"])
        self.assertEqual(server.tunables("lookahead_k"), {"lookahead_k": "6"})
        with self.assertRaisesRegex(ValueError, "speedy"):
            server.set(policy="speedy")
        with self.assertRaisesRegex(RuntimeError, "volume.shou"):
            server.call("volume.shou")
        server.call("volume.set", name="video", settings={"deadline": "50ms"})
        shown = server.call("volume.show", name="video")
        self.assertEqual(shown["volumes"][0]["classes"][0]["deadline_seconds"], 0.05)
