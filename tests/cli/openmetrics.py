"""A reader of OpenMetrics that fails where a collector would. Standard library only."""
import re

from checks import check_equal, check_in


def parsed(text):
    """Samples by family and labels; fails where a collector would: names, types, order, duplicates, the end."""
    families, samples = {}, {}
    lines = text.split("\n")
    check_equal(lines[-2:], ["# EOF", ""], "the end")
    for line in lines[:-2]:
        head = re.fullmatch(r"# (TYPE|HELP) ([a-zA-Z_:][\w:]*) (.+)", line)
        if head and head[1] == "TYPE":
            check_in(head[3], ("gauge", "counter"))
            assert head[2] not in families, line  # which also finds a family in two pieces
            families[head[2]] = {"type": head[3]}
        elif head:
            check_equal(list(families)[-1], head[2], line)
            families[head[2]]["help"] = head[3]
        else:
            sample = re.fullmatch(r'([a-zA-Z_:][\w:]*)((?:\{\w+="[^"\\\n]*"\})?) (-?[\d.]+(?:e[+-]\d+)?)', line)
            assert sample, line
            name, of = list(families)[-1], families[list(families)[-1]]
            check_equal(sample[1], name + ("_total" if of["type"] == "counter" else ""), line)
            assert of["help"] and sample[1] + sample[2] not in samples, line
            samples[sample[1] + sample[2]] = float(sample[3])
    counters = [name + "_total" for name, family in families.items() if family["type"] == "counter"]
    return samples, {name: samples[name] for name in counters if name in samples}
