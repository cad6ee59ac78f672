"""What meson has noted of a build tree. Standard library only."""
import json
import os


def _noted(build, what):
    with open(os.path.join(build, "meson-info", f"intro-{what}.json"), encoding="utf-8") as file:
        return json.load(file)


def tests_in(build):
    """Its tests as `meson introspect --tests` has them, each with "files": what it needs to be built, relative to the
    folder of the build, as ninja wants it."""
    targets = {target["id"]: target["filename"] for target in _noted(build, "targets")}
    return [{**test, "files": [os.path.relpath(name, build) for one in test["depends"] for name in targets[one]]}
            for test in _noted(build, "tests")]


def installed_in(build):
    """The files that are installed, relative to the folder of the build."""
    return [os.path.relpath(name, build) for target in _noted(build, "targets") if target["installed"]
            for name in target["filename"]]
