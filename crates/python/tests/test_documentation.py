"""The examples of docs/python.md run as they are printed."""

import asyncio
import contextlib
import io
import os
import pathlib
import re
import runpy
import sys
import tempfile
import unittest

PAGE = pathlib.Path(__file__).parents[3] / "docs/python.md"
EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


class Documentation(unittest.TestCase):
    def test_the_examples_run(self):
        blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
        # An example with an ellipsis needs a server.
        blocks = [block for block in blocks if "…" not in block]
        self.assertGreater(len(blocks), 4)
        before = os.getcwd()
        for block in blocks:
            with self.subTest(block), tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                try:
                    with contextlib.redirect_stdout(io.StringIO()) as printed:
                        exec(compile(block, str(PAGE), "exec"), {"__name__": "__main__"})
                finally:
                    os.chdir(before)
                self.assertTrue(printed.getvalue())

    def test_the_plotter_reads_its_batches(self):
        main = runpy.run_path(str(EXAMPLES / "plotter.py"))["main"]
        with tempfile.TemporaryDirectory() as folder:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                asyncio.run(main(f"emulated:atlas10k?backing={folder}/drive.img", 1))
        self.assertRegex(printed.getvalue(), r"plotter: \d+ batches late.*\nbatches: 8 in .*\nreads: ")

    def test_the_plotter_by_plain_threads_reads_its_batches(self):
        main = runpy.run_path(str(EXAMPLES / "plotter_threads.py"))["main"]
        # On a disk, because not every file system in memory accepts direct I/O.
        with tempfile.TemporaryDirectory(dir=sys.prefix) as folder:
            disk = pathlib.Path(folder) / "disk.img"
            with disk.open("wb") as file:
                file.truncate(64 << 20)
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                main(disk, 1)
        self.assertRegex(printed.getvalue(), r"plotter: \d+ reads late.*\nreads: .*\nwriters: .*\nbookkeeping: ")
