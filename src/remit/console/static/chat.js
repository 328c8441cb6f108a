// A conversation with Remit's own agent: its parts are fetched anew while it works, words are sent signed.
import { fetchPart, putPart } from "./parts.js";
import { postSigned } from "./proof.js";

const WORKING_MS = 500;
const QUIET_MS = 3000;
const place = document.querySelector("[data-chat]");
const talk = place.querySelector("[data-part='talk']");
const composer = place.querySelector(".composer");
const words = composer.querySelector("textarea");
const problem = composer.querySelector("[data-problem]");
let shown = "";
let timer = 0;

const question = () => talk.querySelector("[data-question]")?.dataset.question ?? "";
const isAtEnd = () => innerHeight + scrollY > document.documentElement.scrollHeight - 120;

async function refresh() {
  clearTimeout(timer);
  try {
    const html = await fetchPart("talk");
    if (html !== shown) {
      const follows = isAtEnd();
      const open = [...talk.querySelectorAll("details")].map((each) => each.open);
      putPart(talk, html);
      [...talk.querySelectorAll("details")].forEach((each, at) => { each.open = open[at] ?? false; });
      shown = html;
      if (follows) scrollTo(0, document.documentElement.scrollHeight);
    }
  } catch {
    // The banner of the page says that Remit is away; the next try may find it.
  }
  const isWorking = talk.querySelector("[data-working]")?.dataset.working === "yes";
  composer.querySelector("[data-stop]").disabled = !isWorking;
  timer = setTimeout(refresh, document.hidden || !isWorking ? QUIET_MS : WORKING_MS);
}

async function post(address, body) {
  problem.hidden = true;
  try {
    await postSigned(`${place.dataset.chat}/${address}`, body);
    await refresh();
    return true;
  } catch (error) {
    problem.textContent = [error.message, error.fix].filter(Boolean).join(". ");
    problem.hidden = false;
    problem.focus();
    return false;
  }
}

let sending = null;
async function send(text, answer) {
  if (!text.trim()) return;
  sending = post("words", { words: text, answer });
  const isSaid = await sending;
  sending = null;
  if (!isSaid) return;
  if (words.value === text) words.value = ""; // what was typed meanwhile stays
  timer = setTimeout(refresh, 100);
}

composer.addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = words.value;
  await sending;
  if (words.value === text) send(text, question()); // else it was sent, or is written anew
});
words.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  composer.requestSubmit();
});
composer.querySelector("[data-stop]").addEventListener("click", () => post("stop", {}));
talk.addEventListener("click", (event) => {
  const choice = event.target.closest("[data-choice]");
  if (choice && !sending) send(choice.dataset.choice, question());
});
scrollTo(0, document.documentElement.scrollHeight);
refresh();
