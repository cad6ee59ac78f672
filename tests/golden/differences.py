"""Where library and gem differ, and what cannot be replayed: differences.json (README.md)."""
import json
import pathlib

DIFFERENCES = json.loads(pathlib.Path(__file__).with_name("differences.json").read_text("utf-8"))["differences"]
OUTCOME = "result", "error"


def is_for(difference, scenario, step, ruby):
    """Its "ruby" lists the casts it is for; without it, it is for all."""
    if difference["scenario"] != scenario or ruby not in difference.get("ruby", [ruby]):
        return False
    return step >= difference["from"] if "from" in difference else step in difference["steps"]


def differences_of(scenario, step, ruby):
    return [difference for difference in DIFFERENCES if is_for(difference, scenario, step, ruby)]


def parts_of(difference, keys):
    """What has to differ: of the keys, or of the outcome. One that is only so at times "may" differ."""
    if difference.get("may"):
        return set()
    return difference.keys() & ({"state"} if keys else {*OUTCOME, "nested"})


def apply(step, differences):
    """A step as the library is expected to answer it; None: it is left out."""
    step = dict(step)
    for difference in differences:
        if "skip" in difference:
            return None
        for part in ("options", "state"):
            if part in difference:  # null takes a member away
                members = {**step.get(part, {}), **difference[part]}
                step[part] = {name: value for name, value in members.items()
                              if value is not None or name not in difference[part]}
        if difference.keys() & set(OUTCOME):
            for part in OUTCOME:
                step.pop(part, None)
        step |= {part: difference[part] for part in (*OUTCOME, "nested") if part in difference}
    return step
