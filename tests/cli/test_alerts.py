#!/usr/bin/env python3
"""The alerts for Prometheus and the dashboard for Grafana: each metric and label that they name is on a real page, and
each alert fires when it should."""
import ctypes
import importlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from harness import PATIENCE_S, Missing, check_equal, check_in, main
from serving import Serve

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALERTS, DASHBOARD = ROOT / "swarm/rql-alerts.yml", ROOT / "swarm/rql-dashboard.json"
RULE = re.compile(r"      - alert: (?P<name>Rql\w+)\n        expr: (?P<expr>.+)\n(?:        for: \d+m\n)?"
                  r"        labels: {severity: (?:critical|warning)}\n        annotations:\n"
                  r'          summary: "(?P<summary>.+)"\n          description: "(?P<description>.+)"\n')
METRIC = re.compile(r"\b([a-z]\w*_\w+)\b")
OF_OTHERS = {"node_textfile_mtime_seconds": {"file"}}  # of the node exporter
OF_SCRAPES = {"instance", "job"}
FUNCTIONS = {"histogram_quantile", "label_values", "humanizeDuration"}
PAGE_SIZE, STATS_SIZE = 32768, 65536

# Series that make an alert fire within 30 minutes, one sample a minute. Time begins at 0.
FIRES = {
    "RqlNoMetrics": {'node_textfile_mtime_seconds{file="/var/lib/prometheus/node-exporter/rql.prom"}': "0x30"},
    "RqlNoServer": {"rql_up": "1x20 0x10"},
    "RqlProgramsFail": {'rql_faults_total{job="a",status="io"}': "0+1x30"},
    "RqlLocksLost": {'rql_lost_total{job="a",instance="i"}': "0x25 1x5"},
    "RqlServerLostWrites": {'rql_histories_lost_total{job="a"}': "0x25 1x5"},
    "RqlHostsDead": {"rql_zombie_hosts": "0x20 2x10"},
    "RqlNoFlusher": {"rql_swarm_flusher": "0x30", "rql_swarm_hosts": "3x30"},
    "RqlLongWait": {'rql_class_oldest_wait_seconds{class="orders"}': "1000+60x30"},
    "RqlDeadRequests": {'rql_class_dead_requests{class="other"}': "1x30"},
    "RqlDamagedKeys": {"rql_damaged_keys": "1x30"},
    "RqlServerCheck": {'rql_server_check{check="mem.policy"}': "3x30"},
}
QUIET = {
    'node_textfile_mtime_seconds{file="/var/lib/prometheus/node-exporter/rql.prom"}': "0+60x30",
    'node_textfile_mtime_seconds{file="/var/lib/prometheus/node-exporter/apt.prom"}': "0x30",
    "rql_up": "1x27 0 1x2", 'rql_faults_total{job="a",status="io"}': "7x30", 'rql_faults_total{job="a",status="invalid"}': "0+1x30",
    'rql_lost_total{job="a",instance="i"}': "5x30", 'rql_histories_lost_total{job="a"}': "1x30",
    "rql_zombie_hosts": "0x20 1 0x9", "rql_swarm_flusher": "1x30", "rql_swarm_hosts": "3x30",
    'rql_class_oldest_wait_seconds{class="orders"}': "0+20x30", 'rql_class_dead_requests{class="other"}': "0x30",
    "rql_damaged_keys": "0x30", 'rql_server_check{check="mem.policy"}': "2x30",
}


def rules():
    text = ALERTS.read_text(encoding="utf-8")
    found = list(RULE.finditer(text))
    check_equal(len(found), text.count("- alert:"), "the form of each rule")
    return {rule["name"]: rule for rule in found}


def panels():
    return [panel for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"] if panel["type"] != "row"]


def library():
    """The binding, with the library that was built."""
    os.environ.setdefault("RQL_LIBRARY", "librql.so.0")
    sys.path.insert(0, str(ROOT / "tests/bindings"))
    try:
        return importlib.import_module("librql")
    except OSError as fault:
        raise Missing(f"shared library: {fault}") from fault


def page_of_a_program(server):
    """What a program serves that has waited for a lock, and held it."""
    librql = library()
    client = librql.Client(server.url, connect_timeout_ms="1m", io_timeout_ms="1m")
    with client.acquire("a", timeout_ms="2m"):
        pass
    stats, page = ctypes.create_string_buffer(STATS_SIZE), ctypes.create_string_buffer(PAGE_SIZE)
    librql.library.rql_client_stats_sized.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    check_equal(librql.library.rql_client_stats_sized(client.handle, stats, STATS_SIZE, None), 0)
    librql.library.rql_stats_openmetrics(stats, page, ctypes.c_size_t(PAGE_SIZE))
    client.close()
    return page.value.decode()


def page_of_serve(rql):
    """Without the mark of its end, behind which another page cannot follow."""
    with Serve(rql) as serve:
        return serve.await_answer("/metrics", lambda status, _: status == 200).replace("# EOF\n", "")


def labels_on(*pages):
    """Name of each sample: its labels, each with its values."""
    found = {}
    for line in "".join(pages).splitlines():
        if not line.startswith("#"):
            name, labels = re.fullmatch(r"(\w+)(?:\{(.*)\})? \S+", line).groups()
            of = found.setdefault(name, {})
            for label, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""):
                of.setdefault(label, set()).add(value)
    return found


def check_expression(expr, known, legend=""):
    """Its metrics, what it selects and groups by, and the labels in a text beside it."""
    plain = re.sub(r'"[^"]*"', '""', expr)
    metrics = [name for name in METRIC.findall(re.sub(r"\{[^}]*\}|\$\w+", "", plain)) if name not in FUNCTIONS]
    assert metrics, expr
    labels = set(OF_SCRAPES)
    for name in metrics:
        assert name in known or name in OF_OTHERS, f"{name} is on no page"
        labels |= set(known.get(name, OF_OTHERS.get(name, ())))
    for matchers in re.findall(r"\{(.*?)\}", expr):
        for label, value in re.findall(r'(\w+)[!=]=?~?"([^"]*)"', matchers):
            check_in(label, labels)
            values = set().union(*(known.get(name, {}).get(label, set()) for name in metrics))
            assert not values or value in values or value.startswith("$"), (label, value)
    groups = [label.strip() for group in re.findall(r"\bby \((.*?)\)", expr) for label in group.split(",")]
    for label in groups:
        check_in(label, labels)
    for label in re.findall(r"\$labels\.(\w+)|\{\{(\w+)\}\}", legend):
        check_in(label[0] or label[1], groups if groups else labels)


def test_each_metric_and_label_is_on_a_page(server, rql):
    known = labels_on(rql("stats", "--openmetrics", "--node").out, page_of_a_program(server), page_of_serve(rql))
    for rule in rules().values():
        check_expression(rule["expr"], known, rule["summary"] + rule["description"])
    for panel in panels():
        for target in panel["targets"]:
            check_expression(target["expr"], known, target["legendFormat"])


def test_the_manual_lists_the_alerts(_server, _rql):
    text = (ROOT / "include/rql/deployments.md").read_text(encoding="utf-8")
    check_equal(re.findall(r"^\| `(Rql\w+)` \|", text, re.M), list(rules()))


def test_each_alert_says_what_to_do(_server, rql):
    """In one line, with commands that are there."""
    for name, rule in rules().items():
        assert len(rule["description"]) <= 120 and rule["description"].endswith("."), name
        assert rule["summary"].endswith("."), name
        for command in re.findall(r"\brql ([a-z]+)", rule["description"] + rule["summary"]):
            check_equal(rql(command, "--help").code, 0, f"{name}: rql {command}")


def promtool(*words):
    if not shutil.which("promtool"):
        raise Missing("promtool (Debian: prometheus)")
    done = subprocess.run(["promtool", *words], check=False, text=True, timeout=PATIENCE_S, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    check_equal(done.returncode, 0, done.stdout)


def test_prometheus_takes_the_alerts(_server, _rql):
    promtool("check", "rules", str(ALERTS))


def test_each_alert_fires_when_it_should_and_not_before(_server, _rql):
    check_equal(sorted(FIRES), sorted(rules()))
    tests = []
    for name, series in FIRES.items():
        for of, wanted in ((series, 1), (QUIET, 0)):
            tests.append({
                "interval": "1m", "input_series": [{"series": key, "values": values} for key, values in of.items()],
                "promql_expr_test": [{
                    "expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}})', "eval_time": "30m",
                    "exp_samples": [{"labels": "{}", "value": 1}] if wanted else []}]})
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "tests.yml")
        path.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}))
        promtool("test", "rules", str(path))


def test_the_panels_lie_beside_each_other(_server, _rql):
    """None on another, each with a title and a number of its own."""
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    cells = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & mine and at["x"] + at["w"] <= 24, panel["title"]
        cells |= mine
    for field in "id", "title":
        values = [panel[field] for panel in dashboard["panels"]]
        check_equal(len(values), len(set(values)), field)
    for panel in panels():
        for source in panel["datasource"], *(target["datasource"] for target in panel["targets"]):
            check_equal(source, {"type": "prometheus", "uid": "${datasource}"})
    check_equal([variable["name"] for variable in dashboard["templating"]["list"]], ["datasource", "class"])


if __name__ == "__main__":
    main()
