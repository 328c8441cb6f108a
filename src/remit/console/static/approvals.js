// The open card: it never changes by itself, takes keys and clicks only after a pause, and sends the hash of what it
// shows. A card leaves when it was answered, here or elsewhere.
import { fetchPart, putPart, refreshPart, say } from "./parts.js";
import { postSigned } from "./proof.js";

const DEAD_MS = 400; // so that a key typed, or a finger put down, for something else answers nothing
const NOTICE_MS = 2000; // what is answered sooner needs no notification
const PREVIEW_MS = 250;
let shownAt = performance.now();
let sending = null; // the card whose answer is under way
let opening = null; // the next card, on its way
let missed = null; // the newest questions, told while an answer or a card was on its way
let announced = null;
const later = new Set(JSON.parse(sessionStorage.getItem("remit-later") ?? "[]"));

const isPhone = document.body.dataset.page === "phone";
const card = () => document.querySelector("[data-card]");
const find = (selector) => card()?.querySelector(selector);
const isDead = () => performance.now() - shownAt < DEAD_MS;

// -- answers ---------------------------------------------------------------------------------------------------

const ANSWERS = { y: "once", s: "wider", n: "deny" };

export function answerByKey(key) {
  if (!card() || isDead() || isPhone || document.querySelector("dialog[open]")) return;
  if (key in ANSWERS) {
    const button = find(`footer [data-answer="${ANSWERS[key]}"]`);
    if (button && !button.disabled) answer(ANSWERS[key]);
  } else if (key === "e") focusField(find("[data-scope]") ? "[data-scope]" : "[data-rule]");
  else if (key === "w" || key === "f") find(`[data-scope-key="${key}"]`)?.click();
  else if (key === "N") sayWhy();
  else if (key === "Y") showTogether();
  else if (key === "l") putOff();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button");
  if (!button || isDead()) return;
  if ("fillScope" in button.dataset) find("[data-scope]").value = button.dataset.fillScope;
  if (button.dataset.answer) answer(button.dataset.answer);
  else if (button.dataset.extentChoice) chooseExtent(button.dataset.extentChoice);
  else if ("sayWhy" in button.dataset) sayWhy();
  else if ("later" in button.dataset) putOff();
  else if ("together" in button.dataset) showTogether();
  else if ("answerTogether" in button.dataset) answerTogether();
  else if ("closeSheet" in button.dataset) button.closest("dialog").close();
  else if ("notify" in button.dataset) Notification.requestPermission().then(showNotifyButton);
});

document.addEventListener("input", (event) => {
  if (event.target.matches("[data-typed-input]")) {
    const once = find('[data-answer="once"]');
    once.disabled = event.target.value !== card().dataset.typed;
  } else if (event.target.matches("[data-rule]")) previewSoon();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.repeat || isDead()) return;
  if (event.target.matches?.("[data-words]")) answer("deny");
});

async function answer(choice) {
  const shown = card();
  if (!shown || shown === sending || shown.dataset.done) return;
  const isWider = choice === "wider";
  await send(`/approvals/${shown.dataset.card}/answer`, {
    repository: shown.dataset.repository,
    allow: choice !== "deny",
    shown_sha256: shown.dataset.sha,
    extent: isWider ? shown.dataset.extent : "once",
    rule: isWider ? find("[data-rule]").value : null,
    words: choice === "deny" ? (find("[data-words]")?.value ?? "") : "",
    typed: find("[data-typed-input]")?.value ?? "",
    scope: choice === "scoped" ? find("[data-scope]").value.split(/\s+/).filter(Boolean) : [],
  }, (done) => (!done.allowed ? "Denied" : done.extent === "once" ? (shown.querySelector("[data-scope]") ? "Allowed" : "Allowed, this once") : `Allowed for the ${done.extent}: ${done.rule}`));
}

async function answerTogether() {
  const shown = card();
  if (!shown || shown === sending || shown.dataset.done) return;
  const listed = [...shown.querySelectorAll("[data-equal]")].map((each) => [each.dataset.equal, each.dataset.sha]);
  await send(
    "/approvals/answer-equal",
    { repository: shown.dataset.repository, shown: Object.fromEntries(listed) },
    (done) => `Allowed ${done.allowed.length}, each this once${done.closed.length ? `; ${done.closed.length} were answered already` : ""}`,
  );
}

async function send(path, body, describe) {
  const shown = (sending = card());
  let isOver = true;
  try {
    const done = await postSigned(path, body);
    shown.dataset.done = "yes";
    say(describe(done));
  } catch (error) {
    isOver = error.status === 409; // the message says who was first
    if (isOver) shown.dataset.done = "yes";
    say(error.message);
  }
  sending = null;
  if (isOver) await openNext();
  else followMissed();
}

// After the key that asked for it: its letter is no word of the field.
function focusField(selector) {
  const field = find(selector);
  setTimeout(() => {
    field?.focus();
    field?.select();
  });
}

function sayWhy() {
  const place = find("[data-why]");
  if (!place) return;
  place.hidden = false;
  focusField("[data-words]");
}

function putOff() {
  later.add(card().dataset.card);
  sessionStorage.setItem("remit-later", JSON.stringify([...later].slice(-50)));
  openNext();
}

function showTogether() {
  const sheet = find("[data-together-sheet]");
  if (!sheet) return;
  sheet.showModal();
  shownAt = performance.now();
}

// -- a wider yes -----------------------------------------------------------------------------------------------

let previewTimer;
let previewed = 0;

function chooseExtent(extent) {
  card().dataset.extent = extent;
  for (const each of card().querySelectorAll("[data-extent-choice]"))
    each.setAttribute("aria-pressed", String(each.dataset.extentChoice === extent));
  find("[data-wider-words]").textContent = `Allow for the ${extent}`;
  showPreview();
}

function previewSoon() {
  clearTimeout(previewTimer);
  previewTimer = setTimeout(showPreview, PREVIEW_MS);
}

async function showPreview() {
  const shown = card();
  if (!find("[data-rule]")) return;
  const asked = ++previewed;
  const query = new URLSearchParams({ rule: find("[data-rule]").value, extent: shown.dataset.extent });
  try {
    const html = await fetchPart("preview", `/approvals/${shown.dataset.card}?${query}`);
    if (asked !== previewed || card() !== shown) return;
    putPart(find('[data-part="preview"]'), html);
    find('[data-answer="wider"]').disabled = Boolean(find('[data-part="preview"] .bad'));
  } catch {
    // The answer itself says what is wrong with the rule.
  }
}
showPreview();

// -- the queue -------------------------------------------------------------------------------------------------

function openNext() {
  opening ??= loadNext().finally(() => {
    opening = null;
    followMissed();
  });
  return opening;
}

async function loadNext() {
  if (isPhone) await refreshPart("card");
  else {
    const address = later.size ? `/approvals?later=${[...later]}` : "/approvals";
    putPart(document.querySelector('[data-part="card"]'), await fetchPart("card", address));
    history.replaceState(null, "", card() ? `/approvals/${card().dataset.card}` : "/approvals");
  }
  shownAt = performance.now();
  showPreview();
  if (!isPhone) refreshQueue();
}

async function refreshQueue() {
  await Promise.all([refreshPart("queue"), refreshPart("badge")]);
  markTicket();
}

function markTicket() {
  for (const each of document.querySelectorAll("[data-ticket]")) {
    const isChosen = each.dataset.ticket === card()?.dataset.card;
    each.classList.toggle("chosen", isChosen);
    if (isChosen) each.setAttribute("aria-current", "true");
    else each.removeAttribute("aria-current");
  }
}

export async function followQuestions(ids, page) {
  notify(ids);
  if (page !== "approvals" && page !== "phone") return;
  const open = card()?.dataset;
  missed = sending || opening ? [ids, page] : null;
  if (missed) return;
  if (open?.open === "yes" && !ids.includes(open.card)) {
    const closing = open.done ? "" : await describeClosing(open.card);
    if (closing === null) return; // the card is newer than the state
    if (closing) say(closing);
    await openNext();
  } else if (!open && !isPhone && ids.length) await openNext();
  else if (!isPhone) await refreshQueue();
}

function followMissed() {
  if (missed && !sending && !opening) followQuestions(...missed);
}

async function describeClosing(id) {
  const response = await fetch(`/approvals/${id}.json`);
  const { card, closing } = response.ok ? (await response.json()).data : {};
  if (card?.is_open) return null;
  return closing ? `Already ${closing}` : "Answered elsewhere, or its time is over";
}

// -- notifications ---------------------------------------------------------------------------------------------

function showNotifyButton() {
  const button = document.querySelector("[data-notify]");
  if (button) button.hidden = self.Notification?.permission !== "default";
}
showNotifyButton();

function notify(ids) {
  const fresh = announced === null ? [] : ids.filter((id) => !announced.has(id));
  announced = new Set(ids);
  if (self.Notification?.permission !== "granted") return;
  for (const id of fresh) setTimeout(() => announce(id), NOTICE_MS);
}

// Agent and intent only: a notification is read by everybody who sees the screen.
async function announce(id) {
  if (!document.hidden || !announced.has(id)) return;
  const response = await fetch("/approvals.json");
  const question = response.ok && (await response.json()).data.queue.find((each) => each.id === id && each.is_open);
  if (!question) return;
  const notice = new Notification(`${question.agent} waits for you`, { body: question.intent_id ?? "no intent", tag: id });
  notice.onclick = () => {
    self.focus();
    location.assign(`/approvals/${id}`);
  };
}

// -- time left -------------------------------------------------------------------------------------------------

setInterval(() => {
  for (const ring of document.querySelectorAll("[data-ring-until]")) {
    const [from, until] = [Number(ring.dataset.ringFrom), Number(ring.dataset.ringUntil)];
    const left = Math.max(0, Math.min(100, (100 * (until - Date.now() / 1000)) / Math.max(1, until - from)));
    ring.querySelector(".arc")?.setAttribute("stroke-dasharray", `${left.toFixed(1)} 100`);
  }
}, 1000);
