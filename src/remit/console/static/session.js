// The page of a session: windows of its timeline, the panel beside it, and new records at the end as they come.
import { fetchPart, putPart } from "./parts.js";
import { onKeys } from "./page_keys.js";

const head = document.querySelector(".session-head");
const { here, form, session, repository } = head.dataset;
const rowsPart = document.querySelector('[data-part="rows"]');
const peekPart = document.querySelector('[data-part="peek"]');
const reader = document.querySelector(".reader");
const pill = document.querySelector("[data-new]");
const OVERLAP = 40; // records fetched again: the end of a call joins its row
const MAX_ROWS = 400; // rows kept while new ones come
const MIN_PAUSE_MS = 200;

// -- windows ---------------------------------------------------------------------------------------------------

const windowOf = () => rowsPart.querySelector("[data-window]")?.dataset.window.split(",").map(Number);
let shownEnd = Number(head.dataset.end);
let total = Number(head.dataset.total);
const isAtEnd = () => shownEnd >= total;

function showWindow() {
  const seen = document.querySelector(".strip .seen");
  const range = windowOf();
  if (!seen || !range || head.dataset.filtered) return;
  const [start, end] = range;
  const buckets = document.querySelector(".strip").dataset.strip.split(",").map(Number);
  let sum = 0;
  const places = [];
  for (const [at, count] of buckets.entries()) {
    if (sum + count > start && sum < end) places.push(at);
    sum += count;
  }
  if (!places.length) return;
  seen.setAttribute("x", places[0] * 4);
  seen.setAttribute("width", (places.at(-1) - places[0] + 1) * 4);
}

let jumped = 0;
async function jump(address, { push = true, toEnd = false } = {}) {
  const number = ++jumped;
  const html = await fetchPart("rows", address);
  if (number !== jumped) return; // a later one was asked meanwhile
  putPart(rowsPart, html);
  const range = windowOf();
  if (range) [, shownEnd, total] = range;
  if (push) history.pushState({}, "", address);
  showWindow();
  pill.hidden = isAtEnd();
  const first = rowsPart.querySelector(toEnd ? "[data-row]:last-child" : "[data-row]");
  first?.scrollIntoView({ block: toEnd ? "end" : "center" });
}

document.querySelector(".strip")?.addEventListener("click", (event) => {
  const strip = event.currentTarget;
  const buckets = strip.dataset.strip.split(",").map(Number);
  const box = strip.getBoundingClientRect();
  const chosen = Math.min(buckets.length - 1, Math.floor(((event.clientX - box.left) / box.width) * buckets.length));
  const from = buckets.slice(0, chosen).reduce((sum, each) => sum + each, 0);
  if (rowsPart) jump(`${here}?from=${Math.max(0, from - 10)}`);
  else location.assign(`${here}?from=${from}`);
});

// -- the panel -------------------------------------------------------------------------------------------------

function chooseRow(row) {
  for (const each of rowsPart.querySelectorAll("tr.chosen")) each.classList.remove("chosen");
  row?.classList.add("chosen");
}

let peeked = 0;
async function openPeek(row) {
  const address = new URL(row.querySelector("a").href);
  chooseRow(row);
  const number = ++peeked;
  const html = await fetchPart("peek", address.href);
  if (number !== peeked) return; // another row was chosen meanwhile, or none
  putPart(peekPart, html);
  peekPart.hidden = false;
  reader.classList.add("with-peek");
  history.replaceState({}, "", address.pathname + address.search);
  row.scrollIntoView({ block: "nearest" });
}

function closePeek() {
  peeked++;
  peekPart.hidden = true;
  putPart(peekPart, "");
  reader.classList.remove("with-peek");
  chooseRow(null);
  const address = new URL(location.href);
  address.searchParams.delete("e");
  history.replaceState({}, "", address.pathname + address.search);
}

function step(by) {
  const rows = [...rowsPart.querySelectorAll("[data-row]")];
  const at = rows.findIndex((row) => row.matches(".chosen"));
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))];
  if (next) openPeek(next);
}

rowsPart?.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const jumpLink = event.target.closest("a[data-jump]");
  const row = event.target.closest("[data-row]");
  if (jumpLink) {
    event.preventDefault();
    jump(jumpLink.href, { toEnd: jumpLink.matches(".back") });
  } else if (row && !String(getSelection())) {
    event.preventDefault();
    openPeek(row);
  }
});
peekPart.addEventListener("click", (event) => {
  if (!event.target.closest("[data-close]") || !rowsPart) return;
  event.preventDefault();
  closePeek();
});
addEventListener("popstate", () => location.reload());

// -- new records -----------------------------------------------------------------------------------------------

let isFetching = false;
let isDue = false;
let lastFetch = 0;

function isLookingAtEnd() {
  const last = rowsPart.querySelector("[data-rows]")?.lastElementChild;
  return Boolean(last) && last.getBoundingClientRect().top < innerHeight + 40;
}

function joinRows(html) {
  const holder = document.createElement("table");
  holder.append(document.createElement("tbody"));
  putPart(holder.firstElementChild, html);
  const body = rowsPart.querySelector("[data-rows]");
  const known = new Map([...body.children].map((row) => [row.dataset.key, row]));
  for (const row of [...holder.firstElementChild.children]) {
    const before = known.get(row.dataset.key);
    const link = row.querySelector("a");
    link.href = `${here}?e=${encodeURIComponent(row.dataset.id)}`;
    if (!before) body.append(row);
    else if (Number(before.dataset.records) < Number(row.dataset.records)) {
      row.classList.toggle("chosen", before.matches(".chosen"));
      before.replaceWith(row);
    }
  }
  while (body.children.length > MAX_ROWS) body.firstElementChild.remove();
}

async function follow() {
  if (isFetching) {
    isDue = true;
    return;
  }
  isFetching = true;
  try {
    do {
      isDue = false;
      const wait = lastFetch + MIN_PAUSE_MS - performance.now();
      if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
      lastFetch = performance.now();
      const wasAtEnd = isAtEnd() && isLookingAtEnd();
      const from = wasAtEnd ? Math.max(0, shownEnd - OVERLAP) : 1_000_000;
      const answer = await fetch(`${here}/tail?from=${from}`, { headers: { "Remit-Part": "rows" } });
      if (!answer.ok) return;
      const html = await answer.text();
      total = Number(answer.headers.get("remit-total"));
      for (const place of document.querySelectorAll("[data-records-total]")) place.textContent = total.toLocaleString("en");
      if (wasAtEnd && total - from > 400) await jump(here, { push: false, toEnd: true });
      else if (wasAtEnd) {
        joinRows(html);
        shownEnd = total;
        rowsPart.querySelector("[data-rows]").lastElementChild.scrollIntoView({ block: "nearest" });
      }
      pill.hidden = isAtEnd();
      pill.firstElementChild.textContent = `${(total - shownEnd).toLocaleString("en")} new`;
    } while (isDue);
  } finally {
    isFetching = false;
  }
}

pill.addEventListener("click", () => (rowsPart ? jump(here, { toEnd: true }) : location.reload()));
const countedName = `${repository}/${session}`;
let counted = null;
let mayMiss = true; // the first look also gets what came between the page and the stream
document.addEventListener("remit:stream", () => { // broken or opened anew: counts begin anew, and something may be missing
  counted = null;
  mayMiss = true;
});
document.addEventListener("remit:missed", (event) => {
  mayMiss = !event.detail.is_whole || countedName in event.detail.records;
});
document.addEventListener("remit:state", (event) => {
  const now = `${event.detail.records[countedName]}`;
  if (counted === null ? mayMiss : counted !== now) {
    if (rowsPart && !head.dataset.filtered) follow();
    else if (form !== "timeline" && counted !== null) pill.hidden = false;
  }
  counted = now;
});

if (rowsPart) {
  onKeys({
    "]": () => step(1),
    "[": () => step(-1),
    d: () => peekPart.querySelector(".diff")?.scrollIntoView({ block: "nearest" }),
    o: () => peekPart.querySelector("[data-full]")?.click(),
    t: () => location.assign(`${here}?form=tree`),
  });
  showWindow();
  const chosen = rowsPart.querySelector("tr.chosen");
  if (chosen) chosen.scrollIntoView({ block: "center" });
  else if (isAtEnd() && !new URLSearchParams(location.search).has("from") && !head.dataset.filtered)
    rowsPart.querySelector("[data-rows]")?.lastElementChild?.scrollIntoView({ block: "end" });
} else onKeys({ t: () => location.assign(form === "tree" ? `${here}?form=feed` : here) });
