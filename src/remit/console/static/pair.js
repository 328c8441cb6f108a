// Pairing: the secret stands in the fragment, which no server and no log ever sees.
import { exportPublicKey, keepKey, makeKey } from "./proof.js";

const WANTED_MS = 15 * 60_000;
const words = document.querySelector("[data-words]");
const secret = location.hash.slice(1);
history.replaceState(null, "", location.pathname);

const hasLogin = "hasLogin" in words.dataset;

async function pair() {
  if (!secret && !hasLogin) {
    words.textContent = "This link has no secret. Run `remit serve` in a terminal, and open the link that it prints.";
    return;
  }
  const key = await makeKey();
  const name = navigator.userAgentData?.brands?.at(-1)?.brand ?? navigator.userAgent.split(" ").at(-1);
  const about = { public_key: await exportPublicKey(key), name: `${name} on ${navigator.platform}` };
  const response = await fetch(hasLogin ? "/login/key" : "/pair", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(hasLogin ? about : { secret, ...about }),
  });
  const answer = await response.json();
  if (!response.ok) {
    words.textContent = answer.error.message;
    return;
  }
  await keepKey(answer.data.id, key);
  location.replace(takeWantedAddress());
}

function takeWantedAddress() {
  const wanted = JSON.parse(localStorage.getItem("remit-wanted") ?? "{}");
  localStorage.removeItem("remit-wanted");
  const isHere = typeof wanted.address === "string" && new URL(wanted.address, location.origin).origin === location.origin;
  return isHere && wanted.address.startsWith("/") && Date.now() - wanted.at < WANTED_MS ? wanted.address : "/";
}

pair().catch((error) => {
  words.textContent = `The browser could not pair: ${error.message}`;
});
