#!/usr/bin/env python3
"""The page of rql serve, in a headless Chromium."""
import base64
import contextlib
import hashlib
import json
import re
import time

from harness import (HOST, SLOW, Missing, Server, check_equal, check_in, leave_out_in_cluster, main, share_as, start_waiting,
                     wait_until)
from browser import Browser, find_browser
from serving import Serve

ROWS = "[...document.querySelectorAll('#locks tr.row')].map((row) => [...row.cells].map((cell) => cell.textContent))"
HOSTILE = "<img src=x onerror=document.title='pwned'>"


@contextlib.contextmanager
def page_of(serve, **more):
    if not find_browser():
        raise Missing("chromium")
    leave_out_in_cluster("names with tags")
    with Browser("http://%s:%d/" % serve.where, **more) as browser:
        yield browser
        check_equal(browser.errors, [])


def open_lock(browser, name):
    browser.ask(f"[...document.querySelectorAll('button.name')].find((one) => one.textContent === {json.dumps(name)}).click()")


def test_the_policy_allows_what_is_in_the_page(_server, rql):
    with Serve(rql, "--page") as serve:
        _, headers, text = serve.ask("/")
        for tag in ("script", "style"):
            (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.S)
            digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            check_in(f"{tag}-src 'sha256-{digest}'", headers["Content-Security-Policy"])
        check_equal(re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|https?://(?!www\.w3\.org)", text), [])
        assert text.count("\n") < 600


def test_the_page_shows_locks_in_order(server, rql):
    for name in ("quiet", HOSTILE):
        rql("lock", name, "--ttl", "1h", "--reason", "<b>why</b>")
    process = rql.start("run", "busy", "--reason", "nightly", "--meta", "job=7", "--", "sleep", "600")
    wait_until(lambda: server.is_locked("busy"), "it is held")
    waiting = [start_waiting(server, rql, "run", "busy", "--", "true", name="busy") for _ in range(2)]
    start_waiting(server, rql, "run", HOSTILE, "--", "true", name=HOSTILE)
    with Serve(rql, "--page") as serve, page_of(serve) as browser:
        browser.await_true("document.querySelectorAll('#locks tr.row').length === 3")
        rows = browser.ask(ROWS)
        check_equal([(row[0], row[2], row[5]) for row in rows], [("busy", "nightly", "2"), (HOSTILE, "<b>why</b>", "1"), ("quiet", "<b>why</b>", "0")])
        check_equal((rows[0][1], rows[2][6]), (f"{HOST} rql[{process.pid}]", "\N{EN DASH}"))
        assert re.fullmatch(r"(\d+m)?\d+(\.\d)?m?s", rows[0][3]) and re.fullmatch(r"\d+\.\ds", rows[0][4]), rows[0]
        check_equal(browser.ask("[document.title, document.images.length]"), ["rql: locks", 0])
        open_lock(browser, "busy")
        browser.await_true("document.querySelectorAll('.queue tbody tr').length === 2")
        detail = browser.ask("[...document.querySelectorAll('.queue tbody tr')].map((row) => [row.cells[0].textContent, row.cells[3].textContent])")
        check_equal(detail, [[str(i + 1), f"{HOST} rql[{one.pid}]"] for i, one in enumerate(waiting)])
        check_in("job7", browser.ask("document.querySelector('.facts').textContent"))
        browser.await_true("document.querySelectorAll('#tiles polyline')[1].getAttribute('points').split(' ').length > 2")
        waiting[0].terminate()
        browser.await_true("document.querySelectorAll('.queue tbody tr').length === 1")
        browser.ask("document.getElementById('sort').value = 'name', document.getElementById('sort').dispatchEvent(new Event('change'))")
        check_equal([row[0] for row in browser.ask(ROWS)], [HOSTILE, "busy", "quiet"])
        browser.ask("document.getElementById('filter').value = 'QUI', document.getElementById('filter').dispatchEvent(new Event('input'))")
        check_equal([row[0] for row in browser.ask(ROWS)], ["quiet"])


def test_the_page_shows_circles_and_dead_hosts(server, rql):
    for name, own, other in (("a", 1, 2), ("b", 2, 1)):
        server.ask("HSET", f"rql:lock:{name}", "acq_id", f"rql:acq:{own}/1/0/0/0123456789abcdef", "hst_id",
                   f"rql:hst:{own}/1/0/0123456789abcdef", "ts", f"{time.time():.3f}", "ini_ttl", "5000")
        server.ask("ZADD", f"rql:lock_queue:{name}", f"{time.time():.3f}", f"rql:acq:{other}/1/0/0/0123456789abcdef")
    share_as(server, "gpu", 8, ("2", ""), ("1", ""))
    server.ask("HSET", "rql:swarm:hsts", "rql:hst:1/1/0/0123456789abcdef", f"{time.time() - 1000:.3f}",
               "rql:hst:2/1/0/0123456789abcdef", f"{time.time() + 1000:.3f}")  # it stays alive
    with Serve(rql, "--page") as serve, page_of(serve) as browser:
        browser.await_true("document.querySelectorAll('#hosts tr.row').length === 2")
        check_equal([row[:2] for row in browser.ask(ROWS)], [["a", "ruby[1] dead host"], ["b", "ruby[2]"], ["gpu", "2 holders, 3 of 8"]])
        chains = browser.ask("document.getElementById('chains').textContent")
        check_equal(chains.count("DEADLOCK"), 1)
        check_in("waits itself for b", chains)
        check_equal(browser.ask("document.getElementById('zombies').textContent"), "1 dead host with 1 lock")
        check_equal(browser.ask("[...document.querySelectorAll('#hosts .badge')].map((one) => one.textContent)"), ["dead", "alive"])


def test_the_page_shows_what_was_used(server, rql):
    with Serve(rql, "--page") as serve, page_of(serve) as browser:
        browser.await_true("document.getElementById('no-history').textContent.startsWith('Nothing is recorded')")
        check_equal(json.loads(serve.ask("/history.json")[2])["mode"], "off")
    for name, user in ((HOSTILE, "ann"), (HOSTILE, "bob"), ("gpu", "bob")):
        check_equal(rql("run", name, "--", "sleep", "0.1", RQL_HISTORY="long", USER=user).code, 0)
    with Serve(rql, "--page") as serve, page_of(serve) as browser:
        browser.await_true("document.querySelectorAll('#usage tbody tr').length === 2")
        cells = "[...document.querySelectorAll('#%s tbody tr')].map((row) => [row.cells[0].textContent, row.cells[1].textContent])"
        check_equal(browser.ask(cells % "usage"), [[HOSTILE, "2"], ["gpu", "1"]])
        check_equal(browser.ask(cells % "users"), [["bob", "2"], ["ann", "1"]])
        check_equal(browser.ask("document.querySelectorAll('#days polyline').length"), 3)
        check_equal(browser.ask("[document.getElementById('no-history').hidden, document.images.length]"), [True, 0])
        told = json.loads(serve.ask("/history.json")[2])
        check_equal([day["holds"] for day in told["by_day"]], [0] * 6 + [3])


def test_the_page_shows_a_client_that_holds_many_locks(server, rql):
    """The page's functions, with a look of its own: a copy of all names for each lock would take minutes."""
    host = "rql:hst:1/1/0/0123456789abcdef"
    with Serve(rql, "--page") as serve, page_of(serve) as browser:
        browser.await_true("document.getElementById('no-hosts').hidden === false")
        took_ms = browser.ask("""(() => {
          const before = look, times = [];
          for (const count of [1000, 50000]) {
            const locks = Array.from({ length: count }, (_, i) => ({ name: "lock-" + i, host_id: "%s", acquirer_id: "a", n_holders: 1,
              used_units: 0, share_limit: 0, is_kept: false, requests: [] }));
            look = { at_us: 1, locks, hosts: [{ host_id: "%s", client: null, zombie: true, last_probe_us: 1 }] };
            const begun = performance.now();
            showHosts();
            times.push(performance.now() - begun);
          }
          look = before;
          return [...times, document.getElementById("zombies").textContent, document.querySelector("#hosts tr.row").textContent];
        })()""" % (host, host))
    check_equal(took_ms[2], "1 dead host with 50000 locks")
    check_in("lock-0, lock-1, lock-2, lock-3, lock-4 and 49995 more", took_ms[3])
    assert took_ms[1] < 1000 * SLOW + 50 * took_ms[0], took_ms


def test_the_page_works_without_a_server(_server, rql):
    with Server() as own:
        own.kill()
        with Serve(rql, "--page", RQL_URL=own.url) as serve, page_of(serve) as browser:
            browser.await_true("document.getElementById('fault').textContent.startsWith('no answer yet: ')")
            check_equal(browser.ask("document.getElementById('state').textContent"), "no answer")
            own.launch()
            rql("lock", "a", "--ttl", "1h", RQL_URL=own.url)
            browser.await_true("document.querySelectorAll('#locks tr.row').length === 1 && document.getElementById('fault').hidden")
            check_in("live", browser.ask("document.getElementById('state').textContent"))
            own.kill()
            browser.await_true("document.body.classList.contains('stale')", 60)
            check_in("Below is what was read last", browser.ask("document.getElementById('fault').textContent"))
            check_equal(browser.ask(ROWS)[0][0], "a")
            serve.process.terminate()
            browser.await_true("document.getElementById('fault').textContent.includes('own server, rql, does not answer')")


def test_the_page_fits_a_phone_and_the_dark(server, rql):
    for name in ("a" * 200, "orders:42", "x y " * 40):
        rql("lock", name, "--ttl", "1h", "--reason", "r" * 100)
        start_waiting(server, rql, "run", name, "--", "true", name=name)
    grounds = []
    with Serve(rql, "--page") as serve, page_of(serve) as browser:
        browser.await_true("document.querySelectorAll('#locks tr.row').length === 3")
        open_lock(browser, "orders:42")
        browser.await_true("document.querySelectorAll('.queue tbody tr').length === 1")
        for width, is_dark in ((375, True), (320, False), (760, False), (761, True), (1280, False)):
            browser.show(width, 800, is_dark)
            check_equal(browser.ask("[innerWidth, document.documentElement.scrollWidth <= innerWidth]"), [width, True])
            hidden = ("[...document.querySelectorAll('main *, .tile *')].filter((one) => !one.closest('.fold > thead')"
                      " && one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML.slice(0, 100))")
            check_equal(browser.ask(hidden), [], f"cut off at {width}")
            grounds.append(browser.ask("getComputedStyle(document.body).backgroundColor"))
    check_equal((grounds[0] == grounds[3], grounds[1] == grounds[2] == grounds[4], grounds[0] == grounds[1]), (True, True, False))


if __name__ == "__main__":
    main()
