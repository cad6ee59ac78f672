"""What people found out about generated mutants that no test finds: verdicts.toml."""
import pathlib
import tomllib

VERDICTS = pathlib.Path(__file__).with_name("verdicts.toml")
KINDS = {
    "equivalent": "nothing that a caller or another client sees changes",
    "speed": "the same is done, only later, more often or with more memory",
    "accepted": "no test is worth it",
    "open": "it has survived, and nobody has looked yet; it is played again",
}


def read_verdicts(path=VERDICTS):
    """Name -> (verdict, reason), without those that are open."""
    if not path.is_file():
        return {}
    with open(path, "rb") as file:
        entries = tomllib.load(file).get("verdict", [])
    found = {}
    for entry in entries:
        name, verdict, reason = entry.get("mutant"), entry.get("verdict"), entry.get("reason")
        if verdict not in KINDS or not reason or not name or name in found:
            raise ValueError(f"{path}: {name}: needs a verdict ({', '.join(KINDS)}) and a reason, once")
        found[name] = verdict, reason
    return {name: verdict for name, verdict in found.items() if verdict[0] != "open"}
