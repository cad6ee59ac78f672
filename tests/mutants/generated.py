"""Generate mutants of files, choose some, and play them."""
import json
import multiprocessing
import pathlib
import random
import re
import shlex
import tomllib

import operators_lua
import play
import schemata
from mutant import numbered
from place import Sources
from plant import ROOT, Copy
from table import Wrong

JUDGED = "judged"
VERDICTS = pathlib.Path(__file__).with_name("verdicts.toml")
KINDS = "equivalent", "speed", "accepted", "open"  # which the head of that file explains


def read_verdicts():
    """Name -> (verdict, reason), without those that are open."""
    with open(VERDICTS, "rb") as file:
        entries = tomllib.load(file)["verdict"]
    found = {entry["mutant"]: (entry["verdict"], entry["reason"]) for entry in entries}
    if len(found) < len(entries) or any(kind not in KINDS or not reason for kind, reason in found.values()):
        raise Wrong(f"{VERDICTS.name}: each mutant needs a verdict ({', '.join(KINDS)}) and a reason, once")
    return {name: verdict for name, verdict in found.items() if verdict[0] != "open"}


def files_of(names):
    """Sources of C and Lua: the files named, and all below the folders named."""
    found = set()
    for name in names:
        path = (ROOT / name).resolve()
        if not path.exists() or not path.is_relative_to(ROOT):
            raise Wrong(f"there is no {name}")
        found |= {one for one in ([path] if path.is_file() else path.rglob("*")) if one.suffix in (".c", ".h", ".lua")}
    return sorted(str(path.relative_to(ROOT)) for path in found)


# ---- a build with all that is chosen ----

def commands_of(build, tree):
    """File -> (folder, words, source) that compile it; of a header those of a source that includes it."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.is_relative_to(tree) and (path not in found or "rql-private" in entry["output"]):
            words = shlex.split(entry["command"])
            cut = words.index("-MD") if "-MD" in words else words.index("-o")
            found[path] = entry["directory"], words[:cut], str(path.relative_to(tree))
    commands = {source: command for command in found.values() for source in [command[2]]}
    for source, command in sorted(commands.items()):
        for header in re.findall(r'^#include "(.*\.h)"', (tree / source).read_text("latin-1"), re.M):
            for folder in "src", "swarm":
                if (tree / folder / header).is_file():
                    commands.setdefault(f"{folder}/{header}", command)
    return commands


def _mutants_of(job):
    import operators_c  # needs python3-clang, which nothing else does
    (folder, words, source), tree, wanted = job
    return operators_c.mutants_of(tree / source, operators_c.arguments_of(folder, words), tree, wanted)


def generate_c(tree, commands, files, jobs):
    """All mutants of these files that compile."""
    by_source = {}
    for path in files:
        if path in commands:
            by_source.setdefault(commands[path][2], (commands[path], tree, set()))[2].add(path)
    with multiprocessing.Pool(jobs) as pool:
        found = [one for some in pool.imap(_mutants_of, by_source.values()) for one in some]
    by_path = {}
    for one in found:
        by_path.setdefault(one.path, []).append(one)
    texts = {path: (tree / path).read_text("latin-1") for path in by_path}
    accepted = schemata.Check(tree, commands).all_accepted(texts, by_path, jobs)
    return [one for some in accepted.values() for one in some]


class Generated:
    """Mutants of some files, in one copy of the tree."""

    def __init__(self, words):
        self.words = words
        self.sources = Sources(ROOT)
        self.copy = Copy(words.dir / "generated")
        self.verdicts = read_verdicts()

    def prepare(self):
        self.copy.prepare("-Dbuildtype=plain", "-Dc_args=-O1 -w", "-Dwarning_level=0", "-Dbench=disabled")
        self.copy.must("ninja", "-C", str(self.copy.build), "lua/script_ids.h")
        schemata.write_header(self.copy.tree, 0)

    def choose(self):
        """Those that are to be played."""
        files = files_of(self.words.files)
        scripts = [path for path in files if path.endswith(".lua")]
        found = [one for path in scripts for one in operators_lua.mutants_of(path, (ROOT / path).read_text())]
        if len(scripts) < len(files):
            self.prepare()
            commands = commands_of(self.copy.build, self.copy.tree)
            in_c = [path for path in files if path not in scripts]
            found += generate_c(self.copy.tree, commands, in_c, self.words.jobs)
        mutants = numbered(found, self.sources)
        print(f"{len(mutants)} mutants of {len(files)} files", flush=True)
        if self.words.random is not None:  # by their names, so that a change elsewhere does not change the choice
            mutants.sort(key=lambda one: random.Random(f"{self.words.seed} {one.name}").random())
            mutants = mutants[:self.words.random]
        if self.words.only:
            mutants = [one for one in mutants if any(text in one.name for text in self.words.only)]
        return sorted(mutants)

    def instrument(self, mutants):
        """Writes them all into the copy; their numbers are their places in the list, from 1."""
        schemata.write_header(self.copy.tree, len(mutants))
        by_path = {}
        for number, one in enumerate(mutants, 1):
            by_path.setdefault(one.path, []).append((number, one))
        for path, some in by_path.items():
            file = self.copy.tree / path
            file.write_text(schemata.instrumented(file.read_text("latin-1"), sorted(some, key=order)), "latin-1")

    def play(self):
        chosen = self.choose()
        judged = [play.Result(one, JUDGED, 0, ": ".join(self.verdicts[one.name])) for one in chosen
                  if one.name in self.verdicts and not self.words.judged]
        mutants = [one for one in chosen if self.words.judged or one.name not in self.verdicts]
        in_c = [one for one in mutants if not one.path.endswith(".lua")]
        results = list(judged)
        if in_c:
            self.instrument(in_c)
            results += play.play_c(self.copy, in_c, self.words)
        in_lua = [one for one in mutants if one.path.endswith(".lua")]
        if in_lua:
            copies = [Copy(self.words.dir / str(number)) for number in range(self.words.jobs)]
            results += play.play_scripts(copies, in_lua, self.words)
        return report(results, self.words)


def order(numbered_mutant):
    """Outer ones first."""
    _, one = numbered_mutant
    return one.start, -one.end, one


# ---- what came out ----

def report(results, words):
    for one in sorted(results):
        if one.state in (play.SURVIVED, play.UNREACHED):
            text = (ROOT / one.mutant.path).read_text("latin-1")
            print(f"{one.state}: {one.mutant.name}{f' ({one.told})' if one.told else ''}\n{one.mutant.diff(text)}")
    kinds = [one.told.partition(":")[0] for one in results if one.state == JUDGED]
    for kind in sorted(set(kinds)):
        print(f"{kinds.count(kind)} judged: {kind}")
    return play.report(sorted(results), lambda one: one.state in (play.SURVIVED, play.UNREACHED),
                       lambda one: one.state in (JUDGED, play.LEFT), words.json)
