"""Another Debian in a folder, for stages to run commands in by debian.sh."""
import os
import shutil

from runner import OUT, ROOT, SUDO

DEBIAN = ROOT / "tests/support/debian.sh"
INSTALL_DEBOOTSTRAP = "apt-get update && apt-get install -y --no-install-recommends debootstrap"


def make_debian(run, suite, variable, folder, *packages):
    """Its folder; None: it could not be made, and the log named like the stage says why."""
    system = os.environ.get(variable) or OUT / folder
    if not shutil.which("debootstrap"):
        run.quietly("packages", *SUDO, "sh", "-c", INSTALL_DEBOOTSTRAP, mode="a")
    return system if run.quietly(run.name, *SUDO, "sh", DEBIAN, "make", suite, system, *packages) else None
