// Every page: live state, keys, theme. What only one page needs is in a module of its own.
import { policy, refreshPart, say } from "./parts.js";
import { postSigned } from "./proof.js";
import { followQuestions, answerByKey } from "./approvals.js";

const page = document.body.dataset.page;
const base = document.body.dataset.base;
const root = document.documentElement;
const title = document.title;

// -- theme and settings ----------------------------------------------------------------------------------------

const settings = JSON.parse(localStorage.getItem("remit") ?? "{}");
const keepSettings = () => localStorage.setItem("remit", JSON.stringify(settings));
if (settings.theme) root.dataset.theme = settings.theme;
for (const button of document.querySelectorAll("[data-theme-choice]")) {
  const choice = button.dataset.themeChoice;
  const show = () => button.setAttribute("aria-pressed", String((settings.theme ?? "system") === choice));
  button.addEventListener("click", () => {
    settings.theme = choice === "system" ? undefined : choice;
    if (settings.theme) root.dataset.theme = settings.theme;
    else delete root.dataset.theme;
    keepSettings();
    for (const each of document.querySelectorAll("[data-theme-choice]"))
      each.setAttribute("aria-pressed", String(each === button));
  });
  show();
}
const keysChoice = document.querySelector("[data-keys-choice]");
if (keysChoice) {
  keysChoice.checked = settings.keys !== false;
  keysChoice.addEventListener("change", () => {
    settings.keys = keysChoice.checked;
    keepSettings();
  });
}
for (const button of document.querySelectorAll("[data-unpair]"))
  button.addEventListener("click", async () => {
    try {
      await postSigned(`/unpair/${button.dataset.unpair}`, {});
      button.closest("tr").remove();
    } catch (error) {
      say(error.message);
    }
  });

// -- live ------------------------------------------------------------------------------------------------------

let known = null;
const live = document.querySelector("[data-live]");
const offline = document.querySelector("[data-offline]");

function showReachable(isReachable) {
  live?.classList.toggle("on", isReachable);
  const words = document.querySelector("[data-live-words]");
  if (words) words.textContent = isReachable ? "Live" : "not live";
  if (offline) offline.hidden = isReachable;
}

function showWaiting(count) {
  document.title = count ? `(${count}) ${title}` : title;
  for (const badge of document.querySelectorAll("[data-waiting-count]")) {
    badge.textContent = count;
    badge.hidden = !count;
  }
}

let isRefreshing = false;
async function showState(state) {
  showReachable(true);
  showWaiting(state.questions.length);
  document.dispatchEvent(new CustomEvent("remit:state", { detail: state }));
  const before = known;
  known = state;
  const asked = !before || before.questions.join() !== state.questions.join();
  if (asked) await followQuestions(state.questions, page);
  if (!before || isRefreshing) return;
  isRefreshing = true;
  try {
    const hasRecords = JSON.stringify(before.log_bytes) !== JSON.stringify(state.log_bytes);
    if ((page === "now" || page === "agents") && (hasRecords || asked)) await refreshPart("list");
    if (page === "sessions" && hasRecords) await refreshPart("list");
  } finally {
    setTimeout(() => { isRefreshing = false; }, 250);
  }
}

function hear(message) {
  if (message.kind === "state") showState(message.state).catch(() => showReachable(false));
  else {
    showReachable(message.kind === "open");
    document.dispatchEvent(new CustomEvent("remit:stream"));
    if (offline && message.kind === "unpaired")
      offline.textContent = "This browser is not paired any more. Run `remit serve` in a terminal, and open the link.";
  }
}

function openStream() {
  const address = `${document.body.dataset.static}/stream.js`;
  if (self.SharedWorker) {
    const worker = new SharedWorker(policy.createScriptURL(address), { name: "remit-live" });
    worker.port.onmessage = (event) => hear(event.data);
    worker.port.start();
    addEventListener("pagehide", () => worker.port.postMessage("bye"));
    return;
  }
  const source = new EventSource("/live");
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

const places = { n: "/", a: "/approvals", i: "intents", s: "sessions", c: "code", h: "changes", w: "agents", e: "chat", r: "restore", p: "governed", m: "metrics", l: "ledger", ",": "/settings" };
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

addEventListener("keydown", (event) => {
  const inField = event.target.closest?.("input, select, textarea, [contenteditable]");
  if (event.key === "Escape") {
    if (inField) event.target.blur();
    else document.querySelector("[data-close]")?.click();
    return;
  }
  if (inField || event.ctrlKey || event.metaKey || event.altKey || event.repeat || settings.keys === false) return;
  if (afterG) {
    afterG = false;
    const place = places[event.key];
    if (place && (place.startsWith("/") || base)) location.assign(place.startsWith("/") ? place : `${base}/${place}`);
    return;
  }
  if (event.key === "g") {
    afterG = true;
    setTimeout(() => { afterG = false; }, 1200);
  } else if (event.key === "?") document.querySelector("[data-keys]").showModal();
  else if (event.key === "/") {
    document.querySelector(".search input")?.focus();
    event.preventDefault();
  } else if (event.key === "j" || event.key === "k") moveRow(event.key === "j" ? 1 : -1);
  else if (event.key === "Enter" && event.target === document.body) openRow();
  else answerByKey(event.key);
});
