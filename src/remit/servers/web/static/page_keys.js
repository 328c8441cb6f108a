// Keys of one page: never in fields, never with modifiers or on repeat, never where a person switched keys off.

export function isFree(event) {
  if (event.target.closest?.("input, select, textarea, [contenteditable], dialog")) return false;
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.defaultPrevented) return false;
  return JSON.parse(localStorage.getItem("remit") ?? "{}").keys !== false;
}

let isAfterG = false;
export function onKeys(actions) {
  addEventListener("keydown", (event) => {
    if (!isFree(event)) return;
    if (isAfterG) {
      isAfterG = false;
      return;
    }
    if (event.key === "g") {
      isAfterG = true;
      setTimeout(() => { isAfterG = false; }, 1200);
      return;
    }
    const act = actions[event.key];
    if (act) {
      event.preventDefault();
      act(event);
    }
  });
}
