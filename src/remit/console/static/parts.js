// Parts of a page fetched anew, and the one place where HTML of this server enters the document.

export const policy = self.trustedTypes
  ? self.trustedTypes.createPolicy("remit", {
      createHTML: (html) => html,
      createScriptURL: (address) => {
        if (!address.startsWith("/static/")) throw new TypeError(`not a script of the console: ${address}`);
        return address;
      },
    })
  : { createHTML: (html) => html, createScriptURL: (address) => address };

export async function fetchPart(name, address = location.href) {
  const response = await fetch(address, { headers: { "Remit-Part": name } });
  if (!response.ok) throw new Error(`${response.status}`);
  return response.text();
}

export function putPart(element, html) {
  if (element) element.innerHTML = policy.createHTML(html);
}

export async function refreshPart(name, address) {
  const element = document.querySelector(`[data-part="${name}"]`);
  if (element) putPart(element, await fetchPart(name, address));
}

export function say(words, ...more) {
  const line = document.createElement("p");
  line.append(words, " ", ...more);
  document.querySelector("[data-toasts]")?.append(line);
  if (!more.length) setTimeout(() => line.remove(), 6000);
}
