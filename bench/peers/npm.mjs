// Lock libraries of npm, each with the client it wants, on one connection, with its own defaults
// but for patience: they try for ever.
//
//   node npm.mjs LIBRARY SOCKET FOLDER      FOLDER holds node_modules
import { createRequire } from "node:module";
import { play } from "./player.mjs";

const [library, socket, folder] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const TTL_MS = 5000;

function redlock() {
  const Redis = require("ioredis");
  const { default: Redlock } = require("redlock");
  const locks = new Redlock([new Redis(socket)], { retryCount: -1 });
  locks.on("error", () => {}); // told of each try that finds the lock taken
  return { take: (_worker, key) => locks.acquire([key], TTL_MS), give: (lock) => lock.release() };
}

function redisSemaphore() {
  const Redis = require("ioredis");
  const { Mutex } = require("redis-semaphore");
  const client = new Redis(socket);
  const mutexes = new Map();
  return {
    async take(worker, key) {
      const id = `${worker} ${key}`;
      if (!mutexes.has(id)) {
        mutexes.set(id, new Mutex(client, key, { lockTimeout: TTL_MS, acquireTimeout: 1e9 }));
      }
      const mutex = mutexes.get(id);
      await mutex.acquire();
      return mutex;
    },
    give: (mutex) => mutex.release(),
  };
}

function redislock() {
  const client = require("redis").createClient(socket);
  const { createLock } = require("redislock");
  return {
    async take(_worker, key) {
      const lock = createLock(client, { timeout: TTL_MS, retries: 1e9 });
      await lock.acquire(key);
      return lock;
    },
    give: (lock) => lock.release(),
  };
}

await play({ redlock, "redis-semaphore": redisSemaphore, redislock }[library]());
