"""The examples of docs/python.md run as they are printed."""

import contextlib
import io
import os
import pathlib
import re
import tempfile
import unittest

PAGE = pathlib.Path(__file__).parents[3] / "docs/python.md"


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
