// etcd's lock service over its HTTP/JSON gateway: a lease and a kept-alive connection per worker.
//
//   node etcd.mjs PORT
import http from "node:http";
import { play } from "./player.mjs";

const port = Number(process.argv[2]);
const LEASE_SECONDS = 1800;
const agent = new http.Agent({ keepAlive: true, maxSockets: 256 });
const leases = new Map();

function call(path, body) {
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, path, method: "POST", agent };
    const request = http.request(options, (response) => {
      let text = "";
      response.on("data", (piece) => (text += piece));
      response.on("end", () => {
        if (response.statusCode === 200) resolve(JSON.parse(text));
        else reject(new Error(`etcd: ${response.statusCode} ${text}`));
      });
    });
    request.on("error", reject);
    request.end(JSON.stringify(body));
  });
}

async function leaseOf(worker) {
  if (!leases.has(worker)) {
    leases.set(worker, (await call("/v3/lease/grant", { TTL: LEASE_SECONDS })).ID);
  }
  return leases.get(worker);
}

const base64 = (text) => Buffer.from(text).toString("base64");

await play({
  async take(worker, key) {
    const lease = await leaseOf(worker);
    return (await call("/v3/lock/lock", { name: base64(key), lease })).key;
  },
  give: (key) => call("/v3/lock/unlock", { key }),
});
