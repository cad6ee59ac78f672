"""A copy of the tree, in which mistakes are planted; the working tree is never touched."""
import os
import pathlib
import shutil
import subprocess

from table import Wrong, tests_of

ROOT = pathlib.Path(__file__).resolve().parents[2]


def files_below(root, without=()):
    """Of a tree: all but build trees and what begins with a dot; with .pkg, whose script is tested."""
    for folder, folders, names in os.walk(root):
        here = pathlib.Path(folder)
        folders[:] = [name for name in folders if (name == ".pkg" or not name.startswith((".", "build", "__pycache__")))
                      and here / name not in without]
        yield from ((here / name).relative_to(root) for name in names)


class Copy:
    """A copy of the tree with its build tree, in which at most one mistake is planted."""

    def __init__(self, folder):
        self.tree, self.build = folder / "tree", folder / "tree-build"
        self.planted = {}

    def prepare(self, *options):
        """What is there already is kept: only what has changed is built again. options: of meson, beside the usual."""
        self.tree.mkdir(parents=True, exist_ok=True)
        wanted = set(files_below(ROOT, {self.tree.parents[1]}))
        for path in set(files_below(self.tree)) - wanted:
            (self.tree / path).unlink()
        for path in wanted:
            old, new = self.tree / path, ROOT / path
            if not old.is_file() or old.read_bytes() != new.read_bytes():
                old.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(new, old)
        if not (self.build / "build.ninja").is_file():
            environ = dict(os.environ)
            if "CC" not in environ and shutil.which("ccache"):
                environ["CC"] = "ccache gcc"
            self.must("meson", "setup", str(self.build), str(self.tree), "-Dtests=enabled", "-Dbench=enabled",
                      f"-Dtest_server={os.environ.get('RQL_TEST_REDIS', '')}", *options, environ=environ)
        else:
            self.must("ninja", "-C", str(self.build), "build.ninja")
        self.tests = tests_of(self.build)

    def must(self, *words, environ=None):
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", env=environ, check=False)
        if done.returncode:
            raise Wrong(f"{' '.join(words)}:\n{done.stdout[-4000:]}")

    def plant(self, changes):
        """File -> text, in place of the changes before; without any: restores."""
        for path in self.planted:
            shutil.copy(ROOT / path, self.tree / path)
        self.planted = changes
        for path, text in changes.items():
            (self.tree / path).write_text(text)

    def compile(self, names, jobs=1):
        """What these tests need."""
        targets = sorted({target for name in names for target in self.tests[name][0]})
        if targets:
            self.must("ninja", "-C", str(self.build), "-j", str(jobs), *targets)
