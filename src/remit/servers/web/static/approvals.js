// The open card: it never changes by itself, takes keys only after a pause, and sends the hash of what it shows.
import { fetchPart, putPart, refreshPart, say } from "./parts.js";
import { postSigned } from "./proof.js";

const DEAD_MS = 400; // so that a key typed for something else answers nothing
let shownAt = performance.now();
let isSending = false;
let announced = new Set();

const card = () => document.querySelector("[data-card]");

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-answer]");
  if (button) answer(button.dataset.answer);
});
document.addEventListener("input", (event) => {
  if (!event.target.matches("[data-typed-input]")) return;
  const once = card().querySelector('[data-answer="once"]');
  once.disabled = event.target.value !== card().dataset.typed;
});

export function answerByKey(key) {
  const choice = { y: "once", s: "intent", n: "deny" }[key];
  if (!choice || !card() || performance.now() - shownAt < DEAD_MS) return;
  const button = card().querySelector(`[data-answer="${choice}"]`);
  if (button && !button.disabled) answer(choice);
}

async function answer(choice) {
  const shown = card();
  if (isSending || !shown || shown.dataset.done) return;
  isSending = true;
  const words = shown.querySelector("[data-words]")?.value ?? "";
  const rule = shown.querySelector("[data-rule]")?.value ?? null;
  const body = {
    repository: shown.dataset.repository,
    allow: choice !== "deny",
    shown_sha256: shown.dataset.sha,
    extent: choice === "intent" ? "intent" : "once",
    rule: choice === "intent" ? rule : null,
    words: choice === "deny" ? words : "",
    typed: shown.querySelector("[data-typed-input]")?.value ?? "",
  };
  try {
    const done = await postSigned(`/approvals/${shown.dataset.card}/answer`, body);
    say(done.allowed ? (done.extent === "once" ? "Allowed, this once" : `Allowed: ${done.rule}`) : "Denied");
    shown.dataset.done = "yes";
    await openNext();
  } catch (error) {
    say(error.message);
    if (error.status === 409) await openNext();
  } finally {
    isSending = false;
  }
}

async function openNext() {
  history.replaceState(null, "", "/approvals");
  await Promise.all([refreshPart("queue", "/approvals"), refreshPart("badge", "/approvals")]);
  putPart(document.querySelector('[data-part="card"]'), await fetchPart("card", "/approvals"));
  shownAt = performance.now();
}

export async function followQuestions(ids, page) {
  notify(ids);
  if (page !== "approvals") return;
  const open = card()?.dataset;
  if (!open || (!ids.includes(open.card) && open.open === "yes" && !isSending)) {
    if (open && !open.done) say("Answered elsewhere, or its time is over");
    await openNext();
    return;
  }
  await Promise.all([refreshPart("queue"), refreshPart("badge")]);
}

function notify(ids) {
  const fresh = ids.filter((id) => !announced.has(id));
  announced = new Set(ids);
  if (!fresh.length || !document.hidden || self.Notification?.permission !== "granted") return;
  setTimeout(() => {
    if (document.hidden && announced.has(fresh[0])) new Notification("Remit", { body: "An agent waits for you", tag: "remit" });
  }, 2000);
}
