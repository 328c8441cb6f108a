// One live stream for all tabs of a browser: browsers open only six connections to a host.
const ports = new Set();
let last = null;
let isAway = false;

const source = new EventSource("/live");
source.addEventListener("state", (event) => {
  last = JSON.parse(event.data);
  isAway = false;
  broadcast({ kind: "state", state: last });
});
source.onopen = () => {
  isAway = false;
  broadcast({ kind: "open" });
};
source.onerror = async () => {
  isAway = true;
  const isUnpaired = await fetch("/index.json").then((response) => response.status === 401, () => false);
  broadcast({ kind: isUnpaired ? "unpaired" : "away" });
};

function broadcast(message) {
  for (const port of ports) port.postMessage(message);
}

self.onconnect = (event) => {
  const port = event.ports[0];
  ports.add(port);
  port.onmessage = () => ports.delete(port);
  port.start();
  if (last) port.postMessage({ kind: "state", state: last });
  else if (isAway) port.postMessage({ kind: "away" });
};
