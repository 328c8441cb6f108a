// One live stream for all tabs of a browser: browsers open only six connections to a host. A broken stream is opened
// again by the browser, which sends the last id (`Last-Event-ID`); where the browser gives up, this does.
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;

const ports = new Set();
let source = null;
let last = null;
let lastId = "";
let version = null;
let awaySince = 0;
let wait = FIRST_WAIT_MS;
let timer = 0;

function open() {
  clearTimeout(timer);
  source?.close();
  source = new EventSource(lastId ? `/live?last=${lastId}` : "/live");
  source.addEventListener("hello", (event) => {
    version = JSON.parse(event.data).version;
    broadcast({ kind: "hello", version });
  });
  source.addEventListener("missed", (event) => broadcast({ kind: "missed", missed: JSON.parse(event.data) }));
  source.addEventListener("state", (event) => {
    last = JSON.parse(event.data);
    lastId = event.lastEventId || lastId;
    awaySince = 0;
    wait = FIRST_WAIT_MS;
    broadcast({ kind: "state", state: last });
  });
  source.onopen = () => {
    awaySince = 0;
    broadcast({ kind: "open" });
  };
  source.onerror = async () => {
    const isFirst = !awaySince;
    awaySince ||= Date.now();
    if (source.readyState === EventSource.CONNECTING) {
      if (isFirst) broadcast({ kind: "away", since: awaySince });
      return;
    }
    clearTimeout(timer);
    timer = setTimeout(open, wait * (0.75 + Math.random() / 2));
    wait = Math.min(LONGEST_WAIT_MS, wait * 2);
    const status = await fetch("/index.json").then((response) => response.status, () => 0);
    broadcast({ kind: status === 401 ? "unpaired" : "away", since: awaySince });
  };
}
open();

function broadcast(message) {
  for (const port of ports) port.postMessage(message);
}

self.onconnect = (event) => {
  const port = event.ports[0];
  ports.add(port);
  port.onmessage = (message) => {
    if (message.data === "retry") {
      wait = FIRST_WAIT_MS;
      open();
    } else ports.delete(port);
  };
  port.start();
  if (version) port.postMessage({ kind: "hello", version });
  if (awaySince) port.postMessage({ kind: "away", since: awaySince });
  else if (last) port.postMessage({ kind: "state", state: last });
};
