"""Every public function is called by a test or by the program rql."""
import re

from check_symbols import declared_functions
from source import code_only, files


def uses(text):
    """Names that are called, or handed on as a function; through a macro counts as well."""
    return set(re.findall(r"\brql_\w+", code_only(text)))


def complaints(root):
    used = set()
    for path in files(root, ["tests", "src/cli"], ("*.c",)):
        used |= uses(path.read_text())
    used |= {name + "_sized" for name in used if name.endswith("_init")}
    for name in sorted(declared_functions(root / "include" / "rql") - used):
        yield f"{name}: no test calls it"
