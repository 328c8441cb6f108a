// The page Code: origins when they come, windows of a long file, and from a line to why it is there.
import { fetchPart, putPart, say } from "./parts.js";
import { onKeys } from "./page_keys.js";

const reader = document.querySelector("[data-code]");
const source = document.querySelector('[data-part="source"]');
const why = document.querySelector('[data-part="why"]');

function withQuery(changes) {
  const address = new URL(location.href);
  address.hash = "";
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) address.searchParams.delete(name);
    else address.searchParams.set(name, value);
  }
  return address;
}

// -- windows and origins ---------------------------------------------------------------------------------------

const windowOf = () => source.querySelector("[data-window]").dataset.window.split(",").map(Number);
const isComing = () => Boolean(source.querySelector("[data-coming]"));

async function readOrigins() {
  if (!isComing()) return;
  const [start] = windowOf();
  try {
    const html = await fetchPart("source", withQuery({ from: start, wait: 1, l: null }));
    const top = source.scrollTop;
    if (windowOf()[0] !== start) return readOrigins();
    const chosen = chosenLines();
    putPart(source, html);
    source.scrollTop = top;
    if (chosen) markChosen(...chosen);
  } catch {
    say("Who wrote these lines cannot be read now.");
  }
}

async function jump(from, line) {
  const address = withQuery({ from, l: null });
  putPart(source, await fetchPart("source", address));
  history.replaceState({}, "", address);
  const row = line ? source.querySelector(`[data-line="${line}"]`) : source.querySelector("tbody tr");
  row?.scrollIntoView({ block: line ? "center" : "nearest" });
  if (!line) source.scrollTop = 0;
  readOrigins();
}

async function showLine(line) {
  const [start, end] = windowOf();
  if (line <= start || line > end) await jump(Math.max(0, line - 60), line);
  const row = source.querySelector(`[data-line="${line}"]`);
  row?.scrollIntoView({ block: "center" });
  return row;
}

// -- why -------------------------------------------------------------------------------------------------------

const chosenRows = () => [...source.querySelectorAll("tr.chosen")];
function chosenLines() {
  const rows = chosenRows();
  return rows.length ? [Number(rows[0].dataset.line), Number(rows.at(-1).dataset.line)] : null;
}
function markChosen(first, last) {
  for (const row of source.querySelectorAll("[data-line]"))
    row.classList.toggle("chosen", Number(row.dataset.line) >= first && Number(row.dataset.line) <= last);
}

let asked = 0;
async function openWhy(first, last) {
  markChosen(first, last);
  const number = ++asked;
  const address = withQuery({ l: first === last ? first : `${first}-${last}` });
  history.replaceState({}, "", address);
  why.hidden = false;
  why.classList.add("peek");
  why.setAttribute("aria-busy", "true");
  reader.classList.add("with-peek");
  if (!why.children.length) why.textContent = "Reading why…";
  try {
    const html = await fetchPart("why", address);
    if (number !== asked) return;
    putPart(why, html);
    if (!why.children.length) why.textContent = "Of an older version, Remit tells who wrote the lines, not why.";
  } catch {
    if (number === asked) why.textContent = "Why these lines are there cannot be read now.";
  }
  why.removeAttribute("aria-busy");
}

function closeWhy() {
  asked++;
  why.hidden = true;
  why.classList.remove("peek");
  putPart(why, "");
  reader.classList.remove("with-peek");
  for (const row of chosenRows()) row.classList.remove("chosen");
  history.replaceState({}, "", withQuery({ l: null }));
}

function firstVisible() {
  const top = source.getBoundingClientRect().top + 60;
  return [...source.querySelectorAll("[data-line]")].find((row) => row.getBoundingClientRect().top >= top);
}

async function stepBlock(by) {
  const map = source.querySelector(".minimap");
  const starts = (map?.dataset.blocks ?? "").split(",").filter(Boolean).map(Number);
  if (!starts.length) {
    say(isComing() ? "Who wrote these lines is still being read." : "No agent's lines are in this file.");
    return;
  }
  const at = chosenLines()?.[0] ?? Number(firstVisible()?.dataset.line ?? 1) - (by > 0 ? 1 : 0);
  const next = by > 0 ? starts.find((start) => start > at) ?? starts[0] : starts.findLast((start) => start < at) ?? starts.at(-1);
  const row = await showLine(next);
  const link = row?.querySelector(".tag a");
  const [first, last] = (link ? new URL(link.href).searchParams.get("l") : `${next}`).split("-").map(Number);
  if (why.hidden) markChosen(first, last ?? first);
  else openWhy(first, last ?? first);
}

if (source) {
  source.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.button) return;
    const jumpLink = event.target.closest("a[data-jump]");
    const map = event.target.closest(".minimap");
    const row = event.target.closest("[data-line]");
    if (jumpLink) {
      event.preventDefault();
      jump(Number(new URL(jumpLink.href).searchParams.get("from")));
    } else if (map) {
      const box = map.getBoundingClientRect();
      const line = Math.ceil(((event.clientY - box.top) / box.height) * Number(reader.dataset.total)) || 1;
      showLine(line);
    } else if (row && !String(getSelection())) {
      event.preventDefault();
      const line = Number(row.dataset.line);
      const link = event.target.closest(".tag a");
      const chosen = chosenLines();
      if (link) {
        const [first, last] = new URL(link.href).searchParams.get("l").split("-").map(Number);
        openWhy(first, last ?? first);
      } else if (event.shiftKey && chosen) openWhy(Math.min(chosen[0], line), Math.max(chosen[1], line));
      else openWhy(line, line);
    }
  });
  why.addEventListener("click", (event) => {
    if (!event.target.closest("[data-close]")) return;
    event.preventDefault();
    closeWhy();
  });
  onKeys({
    w: () => {
      if (!why.hidden) return closeWhy();
      const chosen = chosenLines();
      const line = Number(firstVisible()?.dataset.line ?? 1);
      openWhy(...(chosen ?? [line, line]));
    },
    n: () => stepBlock(1),
    p: () => stepBlock(-1),
    o: () => why.querySelector("[data-full]")?.click(),
  });
  readOrigins();
  chosenRows()[0]?.scrollIntoView({ block: "center" });
}

// -- finding a file --------------------------------------------------------------------------------------------

const find = document.querySelector("[data-find]");
let typed = 0;
find?.addEventListener("input", async () => {
  const number = ++typed;
  const address = new URL(find.form.action);
  if (find.value) address.searchParams.set("find", find.value);
  const html = await fetchPart("list", address);
  if (number === typed) putPart(document.querySelector('[data-part="list"]'), html);
});
