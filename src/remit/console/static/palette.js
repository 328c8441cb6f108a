// The palette: Ctrl-K or Cmd-K, words, arrows, Enter. It asks the page Search, which works without script too.
const WAIT_MS = 80;

let dialog = null;
let asked = 0;
let answered = null; // the words that the list answers
let isEntered = false; // whether Enter came before the answer did

export function openPalette(repository) {
  dialog ??= makePalette();
  if (dialog.open) return;
  dialog.dataset.repository = repository;
  dialog.showModal();
  const input = dialog.querySelector("input");
  input.select();
  answered = null;
  isEntered = false;
  ask(input.value);
}

function makePalette() {
  const made = document.createElement("dialog");
  made.className = "palette";
  made.setAttribute("aria-label", "Go to");
  const input = document.createElement("input");
  const attributes = { type: "text", role: "combobox", "aria-label": "Page, intent, file, session, record", "aria-controls": "palette-list", "aria-expanded": "true", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", placeholder: "Page, intent, file, session, record" };
  for (const [name, value] of Object.entries(attributes)) input.setAttribute(name, value);
  const list = document.createElement("ul");
  list.id = "palette-list";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Found");
  made.append(input, list);
  document.body.append(made);
  let timer = 0;
  input.addEventListener("input", () => {
    isEntered = false;
    clearTimeout(timer);
    timer = setTimeout(() => ask(input.value), WAIT_MS);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      choose(chosenPlace() + (event.key === "ArrowDown" ? 1 : -1));
      event.preventDefault();
    } else if (event.key === "Enter") {
      isEntered = answered !== input.value;
      if (!isEntered) options()[chosenPlace()]?.click();
      event.preventDefault();
    }
  });
  made.addEventListener("click", (event) => {
    if (event.target === made) made.close();
    const address = event.target.closest("[data-address]")?.dataset.address;
    if (address) location.assign(address);
  });
  return made;
}

const options = () => [...dialog.querySelectorAll("[role=option]")];
const chosenPlace = () => options().findIndex((option) => option.getAttribute("aria-selected") === "true");

function choose(place) {
  const all = options();
  if (!all.length) return;
  const chosen = all[(place + all.length) % all.length];
  for (const option of all) option.setAttribute("aria-selected", String(option === chosen));
  dialog.querySelector("input").setAttribute("aria-activedescendant", chosen.id);
  chosen.scrollIntoView({ block: "nearest" });
}

async function ask(words) {
  const number = ++asked;
  const query = new URLSearchParams({ q: words, repo: dialog.dataset.repository });
  const response = await fetch(`/search.json?${query}`);
  if (!response.ok) return;
  const { data } = await response.json();
  if (number !== asked) return;
  dialog.querySelector("ul").replaceChildren(...data.hits.map(makeOption));
  choose(0);
  answered = words;
  if (isEntered && dialog.open && words === dialog.querySelector("input").value) options()[0]?.click();
}

function makeOption(hit, number) {
  const option = document.createElement("li");
  option.id = `palette-${number}`;
  option.setAttribute("role", "option");
  option.dataset.address = hit.address;
  for (const [name, text] of [["kind", hit.kind], ["name", hit.name], ["detail", hit.detail]]) {
    const part = document.createElement("span");
    part.className = name;
    part.textContent = showControls(text);
    option.append(part);
  }
  return option;
}

function showControls(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Cn}\p{Co}\u2028\u2029]/gu, (c) => (c === "\n" ? " ⏎ " : `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`));
}
