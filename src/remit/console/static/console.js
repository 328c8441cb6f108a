// Every page: live state and keys. What only one page needs is in a module of its own.
import { policy, refreshPart, say } from "./parts.js";
import { followQuestions, answerByKey } from "./approvals.js";
import { readKey } from "./page_keys.js";
import { openPalette } from "./palette.js";

const page = document.body.dataset.page;
const title = document.title;

// -- live ------------------------------------------------------------------------------------------------------

let known = null;
const live = document.querySelector("[data-live]");
const offline = document.querySelector("[data-offline]");
const logouts = document.querySelectorAll("[data-logout]");
for (const logout of logouts)
  logout.addEventListener("click", async () => {
    const response = await fetch("/logout", { method: "POST" });
    if (response.ok) location.assign((await response.json()).data.next);
    else say("the console did not log you out: try again");
  });

function showReachable(isReachable) {
  live?.classList.toggle("on", isReachable);
  const words = document.querySelector("[data-live-words]");
  if (words) words.textContent = isReachable ? "Live" : "not live";
  if (offline) offline.hidden = isReachable;
  document.body.toggleAttribute("data-away", !isReachable);
}

function showWaiting(count) {
  document.title = count ? `(${count}) ${title}` : title;
  for (const badge of document.querySelectorAll("[data-waiting-count]")) {
    badge.textContent = count;
    badge.hidden = !count;
  }
}

async function showState(state) {
  showReachable(true);
  showWaiting(state.questions.length);
  document.dispatchEvent(new CustomEvent("remit:state", { detail: state }));
  const isFirst = !known;
  const asked = isFirst || known.questions.join() !== state.questions.join();
  known = state;
  if (asked) await followQuestions(state.questions, page);
  await refreshList();
}

// The list follows the newest state, also when more changes while it is fetched. What the page was made from is as new
// as the state that it carries.
let listed = JSON.parse(document.body.dataset.state ?? "{}");
let isRefreshing = false;
async function refreshList() {
  if (isRefreshing) return;
  isRefreshing = true;
  try {
    while (isListOld()) {
      const state = known;
      await refreshPart("list");
      listed = state;
      await new Promise((done) => setTimeout(done, 250));
    }
  } finally {
    isRefreshing = false;
  }
}

function isListOld() {
  const hasRecords = JSON.stringify(listed.log_bytes) !== JSON.stringify(known.log_bytes);
  if (page === "sessions") return hasRecords;
  if (page === "fleet") return hasRecords || listed.fleet !== known.fleet;
  const isUsed = document.querySelector('[data-part="list"] details[open]'); // what a person uses stays as it is
  return (page === "now" || page === "agents") && !isUsed && (hasRecords || listed.questions.join() !== known.questions.join());
}

// A fleet database on another machine does not say that it changed.
setInterval(() => { if (document.querySelector("[data-polled]")) refreshPart("list").catch(() => {}); }, 3000);

function hear(message) {
  if (message.kind === "state") showState(message.state).catch(() => showReachable(false));
  else if (message.kind === "missed") document.dispatchEvent(new CustomEvent("remit:missed", { detail: message.missed }));
  else if (message.kind === "hello") offerReload(message.version);
  else {
    showReachable(message.kind === "open");
    document.dispatchEvent(new CustomEvent("remit:stream"));
    const words = document.querySelector("[data-offline-words]");
    if (!words || message.kind === "open") return;
    const since = new Date(message.since ?? Date.now()).toTimeString().slice(0, 5);
    words.textContent =
      message.kind === "unpaired"
        ? logouts.length
          ? "You are not logged in any more. Load the page again, and log in."
          : "This browser is not paired any more. Run `remit serve` in a terminal, and open the link."
        : `Remit is not reachable since ${since}. Agents are still governed. Trying again…`;
  }
}

function offerReload(version) {
  if (document.body.dataset.static.endsWith(`/${version}`)) return;
  const button = document.createElement("button");
  button.textContent = "Reload";
  button.addEventListener("click", () => location.reload());
  say("Remit was updated.", button);
}

function openStream() {
  const address = `${document.body.dataset.static}/stream.js`;
  if (self.SharedWorker) {
    const worker = new SharedWorker(policy.createScriptURL(address), { name: "remit-live" });
    worker.port.onmessage = (event) => hear(event.data);
    worker.port.start();
    addEventListener("pagehide", () => worker.port.postMessage("bye"));
    document.querySelector("[data-retry]")?.addEventListener("click", () => worker.port.postMessage("retry"));
    return;
  }
  const source = new EventSource("/live");
  source.addEventListener("missed", (event) => hear({ kind: "missed", missed: JSON.parse(event.data) }));
  source.addEventListener("state", (event) => hear({ kind: "state", state: JSON.parse(event.data) }));
  source.onerror = () => hear({ kind: "away" });
}
openStream();

// -- time left -------------------------------------------------------------------------------------------------

function showTimeLeft() {
  for (const place of document.querySelectorAll("[data-until]")) {
    const left = Math.max(0, Math.floor(Number(place.dataset.until) - Date.now() / 1000));
    const isTicket = Boolean(place.closest("[data-ticket]"));
    if (left) place.textContent = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}${isTicket ? "" : " left, then no"}`;
  }
}
setInterval(showTimeLeft, 1000);
showTimeLeft();

// -- keys ------------------------------------------------------------------------------------------------------

let afterG = false;
let row = -1;

function moveRow(step) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return;
  row = Math.min(rows.length - 1, Math.max(0, row + step));
  for (const each of rows) each.classList.remove("at");
  rows[row].classList.add("at");
  rows[row].scrollIntoView({ block: "nearest" });
}

function openRow() {
  const chosen = document.querySelector("[data-row].at");
  const link = chosen?.matches("a") ? chosen : chosen?.querySelector("a");
  if (link) location.assign(link.href);
}

// The neighbour of what is open: of the record beside a list, else of the part of a list that is shown.
function openNeighbour(step) {
  const open = new URL(location.href).searchParams.get("e");
  const rows = [...document.querySelectorAll("[data-row][data-id]")];
  const place = rows.findIndex((each) => each.dataset.id === open);
  const link = place < 0 ? document.querySelector(step < 0 ? "[data-newer]" : "[data-older]") : rows[place + step]?.querySelector("a");
  if (link) location.assign(link.href);
}

// A page with steps of its own has them in a module of its own.
const stepUnlessPageDoes = (step) => { if (!document.querySelector("[data-own-steps]")) openNeighbour(step); };
const acts = {
  "?": () => document.querySelector("[data-keys]").showModal(),
  "/": (event) => {
    document.querySelector(".search input")?.focus();
    event.preventDefault();
  },
  j: () => moveRow(1),
  k: () => moveRow(-1),
  "[": () => stepUnlessPageDoes(-1),
  "]": () => stepUnlessPageDoes(1),
  Enter: (event) => { if (event.target === document.body) openRow(); },
};

addEventListener("keydown", (event) => {
  const inField = event.target.closest?.("input, select, textarea, [contenteditable]");
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
    openPalette(document.body.dataset.repository);
    event.preventDefault();
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") {
    if (inField) event.target.blur();
    else document.querySelector("[data-close]")?.click();
    return;
  }
  const key = readKey(event);
  if (!key) return;
  if (event.altKey) event.preventDefault();
  if (afterG) {
    afterG = false;
    const link = document.querySelector(`[data-go="${CSS.escape(key)}"]`);
    if (link) location.assign(link.href);
  } else if (key === "g") {
    afterG = true;
    setTimeout(() => { afterG = false; }, 1200);
  } else if (acts[key]) acts[key](event);
  else answerByKey(key);
});
document.querySelector("[data-palette]")?.addEventListener("click", () => openPalette(document.body.dataset.repository));

