// Keys without a field: never on repeat, never with modifiers but the Alt that a person asked for, never where a person
// switched keys off. `readKey` returns the letter, or nothing.

export function readKey(event) {
  const choice = JSON.parse(localStorage.getItem("remit") ?? "{}").keys;
  const needsAlt = choice === "alt";
  if (event.key === "Alt" || event.key === "Shift") return "";
  if (event.target.closest?.("input, select, textarea, [contenteditable], dialog")) return "";
  if (event.ctrlKey || event.metaKey || event.altKey !== needsAlt || event.repeat || choice === false) return "";
  return needsAlt && /^Key/.test(event.code) ? event.code.slice(3).toLowerCase() : event.key;
}

let isAfterG = false;
export function onKeys(actions) {
  addEventListener("keydown", (event) => {
    const key = event.defaultPrevented && !event.altKey ? "" : readKey(event);
    if (!key) return;
    if (isAfterG) {
      isAfterG = false;
      return;
    }
    if (key === "g") {
      isAfterG = true;
      setTimeout(() => { isAfterG = false; }, 1200);
      return;
    }
    const act = actions[key];
    if (act) {
      event.preventDefault();
      act(event);
    }
  });
}
