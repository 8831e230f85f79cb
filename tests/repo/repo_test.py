#!/usr/bin/env python3
"""Rules about the repository itself: rooms, docs/one_token.md, house rules. Standard library only.

    repo_test.py [rooms|one_token|house]...     default: all of them, and the self-tests that show each can fail
"""
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import house
import one_token
import rooms

ROOT = Path(__file__).resolve().parents[2]


class Fixture(unittest.TestCase):
    """A throw-away tree; `files` maps a path to its text."""

    def tree(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = Path(folder.name)
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root

    def assertOneProblem(self, problems, *words):
        self.assertEqual(len(problems), 1, problems)
        for word in words:
            self.assertIn(word, problems[0])


class Rooms(Fixture):
    RANKS = "# comment\nbase 0\nir 1\nformats 1\ncpu 4\n"

    def problems(self, path, text):
        return rooms.check(self.tree({"src/ROOMS": self.RANKS, path: text}))

    def test_repository(self):
        self.assertEqual(rooms.check(ROOT), [])

    def test_allowed(self):
        text = '#include "cpu/kernels/gemv.h"\n#include "ir/graph.h"\n#include <vector>\n#include <fmt/core.h>\n// getenv\n'
        self.assertEqual(self.problems("src/cpu/kernels/gemv.cc", text), [])

    def test_upward(self):
        self.assertOneProblem(self.problems("src/ir/a.cc", '\n#include "cpu/cpu.h"\n'), "src/ir/a.cc:2", "upward")

    def test_upward_in_angle_brackets(self):
        self.assertOneProblem(self.problems("src/ir/a.h", "#include <cpu/cpu.h>\n"), "upward")

    def test_sideways(self):
        self.assertOneProblem(self.problems("src/ir/a.cc", '# include "formats/gguf.h"\n'), "sideways")

    def test_unlisted_include(self):
        self.assertOneProblem(self.problems("src/ir/a.inc", '#include "attic/x.h"\n'), "attic is not a room")

    def test_bare_include(self):
        self.assertOneProblem(self.problems("src/ir/a.cc", '#include "graph.h"\n'), "room/file")

    def test_unlisted_folder(self):
        self.assertOneProblem(self.problems("src/attic/a.cc", ""), "src/attic", "not listed")

    def test_bridge_is_for_text_only(self):
        self.assertOneProblem(self.problems("src/cpu/a.cc", '#include "bridge/bridge.h"\n'), "only ['text'] may")
        files = {"src/ROOMS": "text 2\ncpu 4\n", "bridge/b.h": "", "src/text/a.cc": '#include "b.h"\n'}
        self.assertEqual(rooms.check(self.tree(files)), [])
        self.assertOneProblem(rooms.check(self.tree({**files, "src/cpu/a.cc": '#include "b.h"\n'})), "only ['text'] may")

    def test_environment(self):
        self.assertOneProblem(self.problems("src/ir/a.cc", 'auto* p = std::getenv("X");\n'), "environment")
        self.assertEqual(self.problems("src/base/env.cc", 'auto* p = std::getenv("X");\n'), [])


class OneToken(Fixture):
    def problems(self, document, minimum=1):
        return one_token.check(self.tree({"docs/one_token.md": document, "src/a/x.cc": "void Engine::Step() {}\n"}), minimum)

    def test_repository(self):
        self.assertEqual(one_token.check(ROOT), [])

    def test_good(self):
        self.assertEqual(self.problems("| file | symbol |\n|---|---|\n| `src/a/x.cc` | `Engine::Step` | text |\n"), [])
        self.assertEqual(self.problems("| 1 | `src/a/x.cc` | `Step()` | text |\n"), [])

    def test_missing_symbol(self):
        self.assertOneProblem(self.problems("| `src/a/x.cc` | `Engine::Stop` | text |\n"), "no symbol Engine::Stop")
        self.assertOneProblem(self.problems("| `src/a/x.cc` | `Step`, `Ste` | text |\n"), "no symbol Ste")

    def test_missing_file(self):
        self.assertOneProblem(self.problems("| `src/a/y.cc` | `Step` | text |\n"), "does not exist")

    def test_too_few_rows(self):
        self.assertOneProblem(self.problems("nothing here\n"), "0 table rows")

    def test_no_document(self):
        self.assertOneProblem(one_token.check(self.tree({"README.md": ""})), "missing")


class House(Fixture):
    def test_repository(self):
        self.assertEqual(house.check(ROOT), [])

    def test_host(self):
        root = self.tree({"scripts/a.sh": "pip install --index-url https://" + "pypi" + ".org/simple x\n"})
        self.assertOneProblem(house.check(root), "scripts/a.sh:1", "registry host")

    def test_machine_path(self):
        for folder in ("work", "root", "home"):
            root = self.tree({"Makefile": f"all:\n\tls '/{folder}/x'\n"})
            self.assertOneProblem(house.check(root), "Makefile:2", f"/{folder}/")

    def test_relative_paths_are_fine(self):
        self.assertEqual(house.check(self.tree({"a.sh": "ls ../work/x $x/root/y out/home/z /rootfs /workers\n"})), [])

    def test_links(self):
        good = ("[a](docs/b.md#part) [b](<docs/b.md>) ![c](pic.svg \"title\") [d](docs) [e](#here) [f](https://example.com/x)\n"
                "[ref]: docs/b.md\n`[code](missing)`\n```\n[code](missing)\n```\n<a href=\"/pic.svg\">g</a>\n")
        files = {"a.md": good, "docs/b.md": "[up](../a.md) [root](..) [space](with%20space.txt)", "pic.svg": "",
                 "docs/with space.txt": ""}
        self.assertEqual(house.check(self.tree(files)), [])
        for bad in ("[x](docs/gone.md)", "![x](gone.svg)", "[x]: gone.md", '<img src="gone.png">', "[x](/docs/a.md)",
                    "[x](../a.md)", "[x](pic.svg/)[y](build/x)"):
            root = self.tree({**files, "build/x": "", "bad.md": f"\n{bad}\n"})
            self.assertOneProblem(house.check(root), "bad.md:2", "which is not there")

    def test_long_source(self):
        self.assertOneProblem(house.check(self.tree({"src/a.cc": "\n" * 801})), "801 lines")
        self.assertEqual(house.check(self.tree({"src/a.cc": "\n" * 800})), [])


if __name__ == "__main__":
    groups = {"rooms": Rooms, "one_token": OneToken, "house": House}
    names = sys.argv[1:] or list(groups)
    if not set(names) <= set(groups):
        sys.exit(__doc__)
    loader = unittest.defaultTestLoader
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(groups[name]) for name in names)
    sys.exit(not unittest.TextTestRunner().run(suite).wasSuccessful())
