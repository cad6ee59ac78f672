"""A test program's TAP. Standard library only."""
import subprocess


def run_tests(tests):
    """Runs the functions, whose names are their sentences; returns whether one of them failed."""
    failed = 0
    print(f"1..{len(tests)}")
    for number, test in enumerate(tests, 1):
        word = "ok"
        try:
            test()
        except (AssertionError, OSError, subprocess.SubprocessError) as wrong:
            print("# " + str(wrong).replace("\n", "\n# "))
            failed, word = failed + 1, "not ok"
        print(word, number, "-", test.__name__.replace("_", " "), flush=True)
    return failed > 0
