// The key of this browser: made here, kept in IndexedDB, never exportable. It signs every request that writes.

const STORE = "keys";

let opened; // once a page, before the first key is pressed: opening takes longer than signing

function openStore() {
  opened ??= new Promise((resolve, reject) => {
    const opening = indexedDB.open("remit", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    opening.onsuccess = () => {
      opening.result.onclose = () => (opened = undefined);
      resolve(opening.result);
    };
    opening.onerror = () => reject(opening.error);
  });
  opened.catch(() => (opened = undefined));
  return opened;
}
openStore();

async function request(mode, act) {
  const database = await openStore();
  return new Promise((resolve, reject) => {
    const asked = act(database.transaction(STORE, mode).objectStore(STORE));
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });
}

export const makeKey = () =>
  crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, false, ["sign", "verify"]);
export const keepKey = (id, pair) => request("readwrite", (store) => store.put({ id, key: pair.privateKey }, "browser"));
export const readKey = () => request("readonly", (store) => store.get("browser"));

export async function exportPublicKey(pair) {
  return btoa(String.fromCharCode(...new Uint8Array(await crypto.subtle.exportKey("spki", pair.publicKey))));
}

const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const base64url = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

export async function postSigned(path, data) {
  const kept = await readKey();
  if (!kept) throw new Error("this browser has no key: log in again, or run `remit serve` in a terminal");
  const bytes = new TextEncoder();
  const body = bytes.encode(JSON.stringify(data));
  const time = String(Date.now());
  const nonce = hex(crypto.getRandomValues(new Uint8Array(16)));
  const signed = ["POST", path, hex(await crypto.subtle.digest("SHA-256", body)), time, nonce].join("\n");
  const signature = await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, kept.key, bytes.encode(signed));
  const response = await fetch(path, {
    method: "POST",
    body,
    headers: {
      "Content-Type": "application/json",
      "Remit-Proof": `key=${kept.id}, t=${time}, n=${nonce}, sig=${base64url(signature)}`,
    },
  });
  const answer = await response.json();
  if (!response.ok) {
    const error = new Error(answer.error?.message ?? `the console answered ${response.status}`);
    error.status = response.status;
    error.fix = answer.error?.fix ?? "";
    throw error;
  }
  return answer.data;
}
