// The players that run on Node: workers of one process, measured when told. The protocol is that of
// perf/protocol.h: orders are lines on stdin, answers JSON on stdout.
//
// A contender has take(worker, key), which waits and resolves to what give() takes back.
//
// Here a worker that held the lock for the pause of an order asks again only when another has taken
// it: libraries that poll would otherwise give it to the same worker for ever.
import { createInterface } from "node:readline";

process.on("uncaughtException", (error) => {
  process.stderr.write(`${error.message.split("\n")[0]}\n`);
  process.exit(1);
});

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Times are milliseconds of performance.now() up to here.
class Slot {
  constructor(contender, { threads, slotMs, pauseMs }) {
    this.contender = contender;
    this.threads = threads;
    this.pauseMs = pauseMs;
    this.done = 0;
    this.counted = 0;
    this.waited = 0;
    this.times = [];
    this.released = 0;
    this.waiting = []; // who wants to hear of the next holder
    const begun = performance.now();
    this.countFrom = begun + slotMs / 4; // the first quarter warms up
    this.stop = begun + slotMs;
  }

  note(ended, took) {
    this.done++;
    if (ended < this.countFrom || ended >= this.stop) return;
    this.counted++;
    if (took === null) return;
    this.waited++;
    this.times.push(took);
  }

  async pairs(worker) {
    const key = `bench:peer:${worker}`;
    let begun = performance.now();
    while (begun < this.stop) {
      await this.contender.give(await this.contender.take(worker, key));
      const ended = performance.now();
      this.note(ended, ended - begun);
      begun = ended;
    }
  }

  tellNext() {
    for (const resolve of this.waiting.splice(0)) resolve();
  }

  async turns(worker) {
    let asked = performance.now();
    while (asked < this.stop) {
      const lock = await this.contender.take(worker, "bench:peer:one");
      const entered = performance.now();
      this.tellNext();
      this.note(entered, asked < this.released ? entered - this.released : null);
      if (this.pauseMs > 0 && entered < this.stop) await sleep(this.pauseMs);
      this.released = performance.now();
      const next = new Promise((resolve) => this.waiting.push(resolve));
      await this.contender.give(lock);
      asked = performance.now();
      if (this.pauseMs > 0 && asked < this.stop && this.threads > 1) {
        await Promise.race([next, sleep(this.stop - asked)]);
        asked = performance.now();
      }
    }
  }

  async run(shape) {
    const workers = Array.from({ length: this.threads }, (_, worker) => this[shape](worker));
    await Promise.all(workers);
  }

  quantile(share) {
    const times = this.times;
    return times.length ? times[Math.min(Math.floor(share * times.length), times.length - 1)] : 0;
  }

  outcome(isTurns) {
    this.times.sort((a, b) => a - b);
    return {
      done: this.done,
      counted: this.counted,
      waited: isTurns ? this.waited : 0,
      counted_s: (this.stop - this.countFrom) / 1000,
      p50_us: this.quantile(0.5) * 1000,
      p99_us: this.quantile(0.99) * 1000,
    };
  }
}

export async function play(contender) {
  const say = (object) => process.stdout.write(JSON.stringify(object) + "\n");
  say({});
  for await (const line of createInterface({ input: process.stdin })) {
    const [shape, threads, slotMs, pauseUs] = line.split(" ");
    const slot = new Slot(contender, {
      threads: Number(threads),
      slotMs: Number(slotMs),
      pauseMs: Number(pauseUs) / 1000,
    });
    await slot.run(shape);
    say(slot.outcome(shape === "turns"));
  }
  process.exit(0);
}
