"""The type stubs describe the package as it is."""

import ast
import inspect
import pathlib
import unittest

import headtime


class Stubs(unittest.TestCase):
    def test_the_stubs_name_what_the_package_has_and_nothing_else(self):
        text = pathlib.Path(headtime.__file__).with_suffix(".pyi").read_text()
        nodes = [one for one in ast.parse(text).body if hasattr(one, "name")]
        self.assertEqual({one.name for one in nodes}, set(headtime.__all__))
        for node in nodes:
            found = getattr(headtime, node.name)
            if isinstance(node, ast.ClassDef):
                self.compare_class(node, found)
            else:
                self.compare_arguments(node, found)

    def compare_class(self, node, found):
        named = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
        for name, one in named.items():
            self.assertTrue(hasattr(found, name), f"{node.name}.{name}")
            if inspect.isroutine(getattr(found, name, None)) and not name.startswith("__"):
                self.compare_arguments(one, getattr(found, name))
        attributes = {one.target.id for one in node.body if isinstance(one, ast.AnnAssign)}
        own = vars(found)
        if found is headtime.Server:
            own = own | vars(found.__mro__[1])
        public = {name for name in own if not name.startswith("_")} - {"call_json"}
        self.assertEqual(public - attributes, set(named) & public, node.name)
        self.assertEqual(public | attributes, {n for n in named if n[0] != "_"} | attributes)

    def compare_arguments(self, node, found):
        try:
            real = [name for name in inspect.signature(found).parameters if name != "self"]
        except ValueError:
            self.fail(f"{node.name} has no signature")
        arguments = node.args
        stubbed = [one.arg for one in arguments.posonlyargs + arguments.args if one.arg != "self"]
        # The native methods accept the keywords of requests as **options, and check their names.
        keywords = set(stubbed) | {one.arg for one in arguments.kwonlyargs}
        self.assertLessEqual(set(stubbed), set(real), node.name)
        rest = set(real) - keywords - {one.arg for one in [arguments.vararg, arguments.kwarg] if one}
        self.assertLessEqual(rest, {"options"}, node.name)
