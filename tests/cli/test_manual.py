#!/usr/bin/env python3
"""The manual: pages without a warning, and README, `rql help` and pages that say the same."""
import functools
import pathlib
import re
import shutil
import subprocess
import tempfile

from harness import PROGRAM, Missing, check_equal, check_in, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(PROGRAM).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FOLDER = tempfile.TemporaryDirectory(prefix="rql-test-")  # of all pages
# Of other programs, in our pages.
FOREIGN = {"--cflags", "--libs", "--now", "--collector", "--flag", "--pid"}


def commands_of(rql):
    """In the order of `rql help`."""
    return re.findall(r"^  ([a-z-]+)  +[A-Z]", rql("help").out.split("\n\n")[1], re.M)


def source_of(rql, command=None):
    """A page of section 1 as it would be typed."""
    result = rql("help", "--roff", *([command] if command else []))
    check_equal((result.code, result.err), (0, ""), command)
    return plain(result.out)


def plain(roff):
    text = re.sub(r"\\f[BIR]|\\&|\\%", "", roff)
    for escape, letter in {r"\-": "-", r"\(aq": "'", r"\(ga": "`", r"\(ti": "~", r"\(ha": "^", r"\e": "\\"}.items():
        text = text.replace(escape, letter)
    return text


def section(page, title):
    return re.search(rf"^\.SH {title}\n(.*?)(?=^\.SH |\Z)", page, re.M | re.S)[1]


def flags_of_page(page):
    """Each with its letter and its value, as they are written at its text."""
    return set(re.findall(r"^\.TP\n(-.*)$", section(page, "OPTIONS"), re.M))


def flags_of_help(text):
    lines = re.findall(r"^  +((?:-\w, )?--[\w-]+(?:\[=\S+| \S+)?)(?:  .*|   \(.*)?$", text, re.M)
    return {line.strip() for line in lines}


def words(text):
    """The flags that a text names."""
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


@functools.cache
def all_pages(rql):
    """Files of all pages; those that only lead to another begin with .so."""
    folder = pathlib.Path(FOLDER.name)
    for command in [None, *commands_of(rql)]:
        name = folder / ("rql.1" if not command else f"rql-{command}.1")
        name.write_text(rql("help", "--roff", *([command] if command else [])).out)
    shutil.copytree(BUILD / "include" / "rql" / "man3", folder / "man3")
    shutil.copytree(BUILD / "include" / "rql" / "man7", folder / "man7")
    return sorted(path for path in folder.rglob("*.?") if not path.read_text().startswith(".so "))


def says_nothing(program, *arguments):
    if not shutil.which(program):
        raise Missing(program)
    done = subprocess.run([program, *arguments], check=False, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    check_equal(done.stderr, "", program)
    return done.stdout


def test_groff_shows_each_page_as_it_is(_server, rql):
    """As man(1) has it do, without a warning. What can be typed is neither broken nor made of other letters."""
    pages = all_pages(rql)
    shown = says_nothing("groff", "-mandoc", "-Tutf8", "-Kutf8", "-wmac", "-P-c", *pages)
    # Debian's man shows an unescaped minus as it is, others a hyphen.
    check_equal([line for page in pages for line in re.findall(r".*(?<!\\)-.*", page.read_text())
                 if not line.startswith(".TH ")], [])
    for letter in "\N{HYPHEN}\N{MINUS SIGN}\N{RIGHT SINGLE QUOTATION MARK}\N{LEFT SINGLE QUOTATION MARK}":
        check_equal(re.findall(f".*{letter}.*", shown), [])
    check_in("rql run nightly --try -E 0 -- ./backup.sh", shown)


def test_mandoc_has_no_remark(_server, rql):
    check_equal(says_nothing("mandoc", "-T", "lint", *all_pages(rql)), "")


def test_whatis_finds_each_page(_server, rql):
    found = set(re.findall(r'^(\S+): "', says_nothing("lexgrog", *all_pages(rql)), re.M))
    check_equal(found, {str(page) for page in all_pages(rql)})


def test_pages_lead_to_pages(_server, rql):
    pages = all_pages(rql)
    there = {path.name for path in pathlib.Path(FOLDER.name).rglob("*.?")}
    for page in pages:
        named = re.findall(r"\b(\w[\w-]*)(?: )?\(([137])\)", plain(page.read_text()))
        assert named, page
        check_equal({f"{name}.{number}" for name, number in named} - there - {"man.1", "flock.1"}, set(), page.name)
    for path in pathlib.Path(FOLDER.name, "man3").iterdir():
        link = re.fullmatch(r"\.so man3/(\S+)\n", path.read_text())
        assert not link or link[1] in there, path


def test_each_flag_is_in_help_and_page(_server, rql):
    for command in commands_of(rql):
        wanted = flags_of_help(rql(command, "--help").out)
        assert "-h, --help" in wanted, wanted
        check_equal(flags_of_page(source_of(rql, command)), wanted, command)
    wanted = flags_of_help(rql("help").out) | flags_of_help(rql("help", "options").out)
    assert {"-V, --version", "--spin-us VALUE"} <= wanted, wanted
    check_equal(flags_of_page(source_of(rql)), wanted)


def test_no_page_names_a_flag_that_is_not_there(_server, rql):
    known = words(rql("help").out) | words(rql("help", "options").out)
    known |= set().union(*(words(rql(command, "--help").out) for command in commands_of(rql)))
    # --auto-extend is the default, and not in the help.
    known |= {"--auto-extend", *FOREIGN}
    for page in all_pages(rql):
        check_equal(words(plain(page.read_text())) - known, set(), page.name)


def command_lines(text):
    """(command, the rest) of each `rql ...` in a page of the repository."""
    spans = re.findall(r"`(rql [^`]*)`", text) + re.findall(r"^(rql [^#\n]*)", text, re.M)
    return [(line.split()[1], line.split(" -- ")[0]) for line in spans]


def test_commands_and_flags_of_our_pages_are_there(_server, rql):
    commands, options = commands_of(rql), words(rql("help", "options").out)
    flags = {command: words(rql(command, "--help").out) | options for command in commands}
    flags["help"] = words(rql("help").out)
    named = set()
    for page in [ROOT / "README.md", *sorted((ROOT / "include/rql").glob("*.md"))]:
        for command, line in command_lines(page.read_text(encoding="utf-8")):
            assert command in flags, f"{page.name}: {line}"
            check_equal(words(line) - flags[command], set(), f"{page.name}: {line}")
            named.add(command)
    check_equal(set(commands) - named, set(), "commands that no page of ours names")


def test_each_command_is_in_help_page_and_readme(_server, rql):
    commands = commands_of(rql)
    check_equal(re.findall(r"^rql-([a-z-]+)\(1\)$", section(source_of(rql), "COMMANDS"), re.M), commands)
    for command in commands:
        summary = re.search(rf"^  {command} +(.*)$", rql("help").out, re.M)[1]
        page = source_of(rql, command)
        check_equal(" ".join(section(page, "NAME").split()), f"rql-{command} - {summary}")
        usage = rql("help", command).out.splitlines()[0].removeprefix("Usage: ")
        check_equal(section(page, "SYNOPSIS").strip(), ".B " + usage)


def exit_codes(rql, command=None):
    """Of the help: code -> texts, of one command or all."""
    found = {}
    for code, text in re.findall(r"^  (\d\S*) +(.*)$", rql("help").out.split("Exit codes:\n")[1], re.M):
        who, _, what = text.rpartition(": ")
        if not command or not who or command in who.split(", "):
            found.setdefault(code, []).append(what if command else text)
    return found


def test_the_page_of_options_has_their_ranges_and_defaults(_server, rql):
    """The table that it is made of has bars within its cells."""
    page = (BUILD / "include/rql/man7/rql-options.7").read_text()
    for said in "Range: true | false. Default: true.", "Range: full | ca | none. Default: full.":
        check_in(said, " ".join(re.sub(r"\\f.", "", page).split()))
    assert not re.search(r"\\\\\||: \.", page), "a bar with a backslash, or an empty cell"


def test_exit_codes_agree(_server, rql):
    for command in [None, *commands_of(rql)]:
        of_page, status = {}, section(source_of(rql, command), "EXIT STATUS")
        for code, text in re.findall(r"^\.TP\n\.B (\S+)\n(.*?)(?=^\.TP|\Z)", status, re.M | re.S):
            of_page.setdefault(code, []).append(" ".join(text.split()).rstrip(".").lower())
        wanted = {code: [text.lower() for text in texts] for code, texts in exit_codes(rql, command).items()}
        check_equal(of_page, wanted, command)
    of_readme = re.findall(r"(\d+(?:\+N)?) \(", re.search(r"Exit codes: (.*?)\)\.", README, re.S)[1])
    check_equal(of_readme, list(exit_codes(rql)), "README")
    declared = re.findall(r"CLI_\w+ = (\d+)", (ROOT / "src/cli/exit.h").read_text())
    check_equal([code.removesuffix("+N") for code in exit_codes(rql)], declared, "exit.h")


def test_each_command_that_runs_another_has_its_exit_codes(_server, rql):
    for words in (("run", "a"), ("series", "{s}a", "{s}b"), ("once", "c", "--every", "1d", "--unless-failed"), ("elect", "d")):
        for command, code in (("/etc/passwd", 126), ("/nonexistent", 127)):
            check_equal(rql(*words, "--", command).code, code, words)
            check_in(str(code), exit_codes(rql, words[0]))
        check_in("75", exit_codes(rql, words[0]))


def functions_declared():
    """Names of functions and of the macros to call them by."""
    texts = [path.read_text() for path in (ROOT / "include/rql").glob("*.h*")]
    return {name for text in texts
            for name in re.findall(r"^(?:(?:RQL_API|static inline) [^;(]*?|#define )\b(rql_\w+)\(", text, re.M)}


def test_all_is_installed(_server, rql):
    options = subprocess.check_output(["meson", "introspect", "--buildoptions", BUILD], text=True)
    if not re.search(r'"name": "b_sanitize", "value": (?:"none"|\[\])', options):
        raise Missing("pages of a program with a sanitizer")
    with tempfile.TemporaryDirectory(prefix="rql-test-") as folder:
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", folder], check=True,
                       stdout=subprocess.DEVNULL)
        share = next(pathlib.Path(folder).rglob("share"))
        there = {path.relative_to(share).as_posix(): path for path in share.rglob("*") if path.is_file()}
        names = [path.stem for path in (ROOT / "include" / "rql").glob("*.md")]
        check_equal({f"doc/librql/{name}.md" for name in names} - set(there), set())
        there = {path: file for path, file in there.items() if not path.startswith("doc/")}
        pages = {f"man/man1/rql-{command}.1": command for command in commands_of(rql)} | {"man/man1/rql.1": None}
        scripts = {"bash-completion/completions/rql": "bash", "zsh/site-functions/_rql": "zsh",
                   "fish/vendor_completions.d/rql.fish": "fish"}
        functions = {f"man/man3/{name}.3" for name in functions_declared() | {"librql"}}
        long = {f"man/man7/rql-{name.replace('_', '-')}.7" for name in names}
        of_metrics = {"rql/rql-alerts.yml", "rql/rql-dashboard.json"}
        check_equal(set(there) ^ {*pages, *scripts, *functions, *long, *of_metrics, "man/man7/rql.7"}, set())
        for path, command in pages.items():
            check_equal(plain(there[path].read_text()), source_of(rql, command), path)
        for path, shell in scripts.items():
            check_equal(there[path].read_text(), rql("help", "--completion", shell).out, path)


if __name__ == "__main__":
    main()
