// The page Settings: of this browser, of the paired browsers, and of a repository's file.
import { say } from "./parts.js";
import { postSigned } from "./proof.js";

const root = document.documentElement;
const place = document.querySelector(".settings").dataset;
const settings = JSON.parse(localStorage.getItem("remit") ?? "{}");

function keep() {
  localStorage.setItem("remit", JSON.stringify(settings));
}

function follow(selector, name, read, write) {
  const buttons = [...document.querySelectorAll(selector)];
  const show = () => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset[name] === read()));
  };
  for (const button of buttons)
    button.addEventListener("click", () => {
      write(button.dataset[name]);
      show();
    });
  show();
}

// The theme is a cookie: the server renders it, so no page flashes.
follow("[data-theme-choice]", "themeChoice", () => root.dataset.theme ?? "system", (choice) => {
  document.cookie = `remit_theme=${choice}; path=/; max-age=${choice === "system" ? 0 : 31536000}; samesite=strict`;
  if (choice === "system") delete root.dataset.theme;
  else root.dataset.theme = choice;
});
follow("[data-keys-choice]", "keysChoice", () => (settings.keys === false ? "off" : settings.keys ?? "on"), (choice) => {
  settings.keys = { off: false, alt: "alt" }[choice];
  keep();
});

const notify = document.querySelector("[data-notify]");
const showNotify = () => {
  const state = self.Notification?.permission ?? "denied";
  notify.disabled = state !== "default";
  notify.textContent = { default: "Ask the browser", granted: "Allowed", denied: "Refused by the browser" }[state];
};
notify.addEventListener("click", () => Notification.requestPermission().then(showNotify));
showNotify();

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-unpair], [data-write], [data-try]");
  if (!button) return;
  button.disabled = true;
  try {
    if (button.dataset.unpair) await unpair(button);
    else if (button.dataset.write) await writeSetting(button);
    else await tryText();
  } catch (error) {
    say(error.message);
  } finally {
    button.disabled = false;
  }
});

async function unpair(button) {
  await postSigned(`/unpair/${button.dataset.unpair}`, {});
  button.closest("tr").remove();
}

async function writeSetting(button) {
  const row = button.closest("tr");
  const body = { repository: place.repository, name: button.dataset.write, value: row.querySelector("input").value, file_sha256: place.fileSha };
  const done = await postSigned("/settings", body);
  place.fileSha = done.file_sha256;
  row.querySelector("[data-held]").textContent = done.row.line ? `${done.file}:${done.row.line}` : "default";
  row.querySelector("input").value = done.row.line ? done.row.value : "";
  say(`${done.row.name} is ${done.row.value}`);
}

async function tryText() {
  const answer = document.querySelector("[data-tried-answer]");
  const done = await postSigned("/settings/redaction", { repository: place.repository, text: document.querySelector("[data-tried]").value });
  answer.textContent = done.text;
  answer.hidden = false;
}
