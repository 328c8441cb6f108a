// Forms that write. `<form data-write="/address" data-then="/page?x={field}">` is signed by this browser's key and sent
// as JSON: a field's name is its key; `data-kind="lines"` is a list with an item a line, `list` the checked boxes of a
// name, `flag` true or false, `number` a number. `data-confirm` is asked first. What the console refuses is said beside the form, with the next step.
import { readKey } from "./page_keys.js";
import { fetchPart, putPart, refreshPart, say } from "./parts.js";
import { postSigned } from "./proof.js";

function readFields(form, button) {
  const data = {};
  for (const field of form.elements) {
    if (!field.name || field.disabled) continue;
    const kind = field.dataset.kind ?? "text";
    if (kind === "list") {
      data[field.name] ??= [];
      if (field.checked) data[field.name].push(field.value);
    } else if (kind === "flag") data[field.name] = field.type === "checkbox" ? field.checked : field.value === "yes";
    else if (field.tagName === "BUTTON") continue;
    else if (kind === "lines") data[field.name] = field.value.split("\n").map((line) => line.trim()).filter(Boolean);
    else data[field.name] = kind === "number" ? Number(field.value) : field.value;
  }
  if (button?.name) data[button.name] = button.dataset.kind === "flag" ? button.value === "yes" : button.value;
  return data;
}

function showProblem(form, error) {
  const place = form.querySelector("[data-problem]");
  const words = [error.message, error.fix].filter(Boolean).join(". ");
  if (!place) return say(words);
  place.textContent = words;
  place.hidden = false;
  place.focus();
}

async function send(form, button) {
  if (form.dataset.sending || (form.dataset.confirm && !confirm(form.dataset.confirm))) return;
  form.dataset.sending = "yes";
  form.setAttribute("aria-busy", "true");
  try {
    const done = await postSigned(form.dataset.write, readFields(form, button));
    const then = (form.dataset.then ?? location.href).replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(done[name] ?? ""));
    if (then === location.href) location.reload();
    else location.assign(then);
  } catch (error) {
    // What changed on disk is shown beside what was typed: nothing typed is lost.
    if (error.status === 409 && form.dataset.conflict) {
      await refreshPart(form.dataset.conflict).catch(() => {});
      for (const each of document.querySelectorAll("[data-on-disk]")) each.hidden = false;
    }
    showProblem(form, error);
    delete form.dataset.sending;
    form.removeAttribute("aria-busy");
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-write]");
  if (!form) return;
  event.preventDefault();
  send(form, event.submitter);
});

// A button that needs a choice stays off until something is chosen; `data-all` chooses all, or none.
function showChoice(form) {
  const boxes = [...form.querySelectorAll("[data-kind='list']")];
  const chosen = boxes.filter((box) => box.checked).length;
  for (const button of form.querySelectorAll("[data-needs-choice]")) button.disabled = !chosen;
  for (const place of form.querySelectorAll("[data-chosen]")) place.textContent = chosen === boxes.length ? "all" : String(chosen);
}
document.addEventListener("change", (event) => {
  const form = event.target.closest("form[data-write]");
  if (!form) return;
  if (event.target.matches("[data-all]"))
    for (const box of form.querySelectorAll("[data-kind='list']")) box.checked = event.target.checked;
  showChoice(form);
});
for (const form of document.querySelectorAll("form[data-write]")) showChoice(form);
document.body.dataset.writes = "ready"; // a click before would send the form without its signature, and be lost

// A form that reads: the named part follows what is typed, after a short pause. Without script it is a usual form.
let typed = 0;
document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-preview]");
  if (!form || !event.target.dataset.shown) return;
  const mine = ++typed;
  setTimeout(async () => {
    if (mine !== typed) return;
    const address = new URL(form.dataset.address ?? location.pathname, location.href);
    for (const field of form.querySelectorAll("[data-shown]")) address.searchParams.set(field.dataset.shown, field.value);
    try {
      const html = await fetchPart(form.dataset.preview, address);
      if (mine === typed) putPart(document.querySelector(`[data-part="${form.dataset.preview}"]`), html);
    } catch (error) {
      say(`the preview failed: ${error.message}`);
    }
  }, 180);
});

export function onKey(key, act) {
  addEventListener("keydown", (event) => {
    if (readKey(event) === key) act(event);
  });
}
for (const link of document.querySelectorAll("[data-key]")) onKey(link.dataset.key, () => link.click());
