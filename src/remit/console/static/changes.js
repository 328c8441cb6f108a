// The page Changes: reviewed marks, comments for an agent, hunks taken back, the summary for a pull request.
import { fetchPart, putPart, say } from "./parts.js";
import { postSigned } from "./proof.js";
import { onKeys } from "./page_keys.js";

const review = document.querySelector("[data-review]");
const address = review.dataset.address;
const draftsName = `remit-comments ${address}`;
const drafts = JSON.parse(localStorage.getItem(draftsName) ?? "{}");
const sendButton = review.querySelector("[data-send]");

const hunkOf = (element) => element.closest("[data-hunk]");
function chosenHunk() {
  const chosen = review.querySelector(".hunk.at") ?? hunkOf(document.activeElement);
  if (chosen) return chosen;
  return [...review.querySelectorAll(".hunk")].find((hunk) => hunk.getBoundingClientRect().bottom > 80);
}

// -- reviewed marks --------------------------------------------------------------------------------------------

async function toggleReviewed(hunk) {
  const button = hunk.querySelector("[data-reviewed]");
  const reviewed = button.getAttribute("aria-pressed") !== "true";
  button.disabled = true;
  try {
    await postSigned(`${address}/reviewed`, { hunks: [hunk.dataset.hunk], records: hunk.dataset.records.split(" ").filter(Boolean), reviewed });
    button.setAttribute("aria-pressed", String(reviewed));
    hunk.classList.toggle("reviewed", reviewed);
  } catch (error) {
    say(error.message);
  }
  button.disabled = false;
}

// -- comments --------------------------------------------------------------------------------------------------

function keepDrafts() {
  localStorage.setItem(draftsName, JSON.stringify(drafts));
  const sessions = new Map();
  for (const draft of Object.values(drafts)) {
    const known = sessions.get(draft.session) ?? { agent: draft.agent, count: 0 };
    sessions.set(draft.session, { ...known, count: known.count + 1 });
  }
  const total = Object.keys(drafts).length;
  const agents = [...new Set([...sessions.values()].map((each) => each.agent))];
  sendButton.hidden = !total;
  sendButton.textContent = `Send ${total} comment${total === 1 ? "" : "s"} to ${agents.join(" and ")}`;
}

function openComment(hunk) {
  if (!hunk.dataset.session) {
    say("No agent is known for this hunk: there is nobody to send a comment to.");
    return;
  }
  let box = hunk.querySelector("textarea");
  if (!box) {
    const label = document.createElement("label");
    label.className = "comment";
    label.append(`Comment for ${hunk.dataset.agent}`);
    box = document.createElement("textarea");
    box.rows = 2;
    box.maxLength = 2000;
    box.value = drafts[hunk.dataset.hunk]?.text ?? "";
    box.addEventListener("input", () => {
      const { session, agent, path, line, quote } = hunk.dataset;
      if (box.value.trim()) drafts[hunk.dataset.hunk] = { session, agent, path, line: Number(line), quote, text: box.value };
      else delete drafts[hunk.dataset.hunk];
      keepDrafts();
    });
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send();
    });
    label.append(box);
    hunk.append(label);
  }
  return box;
}

async function send() {
  const bySession = Map.groupBy(Object.entries(drafts), ([, draft]) => draft.session);
  sendButton.disabled = true;
  for (const [session, entries] of bySession) {
    try {
      const comments = entries.map(([, { path, line, text, quote }]) => ({ path, line, text, quote }));
      await postSigned(`${address}/comments`, { session, comments });
      for (const [name] of entries) {
        delete drafts[name];
        review.querySelector(`[data-hunk="${name}"] .comment`)?.remove();
      }
      say(`${entries[0][1].agent} gets ${entries.length === 1 ? "the comment" : `${entries.length} comments as one message`} with its next call or prompt.`);
    } catch (error) {
      say(error.message);
    }
  }
  sendButton.disabled = false;
  keepDrafts();
}
sendButton.addEventListener("click", send);

// -- revert ----------------------------------------------------------------------------------------------------

async function revert(hunk) {
  const button = hunk.querySelector("[data-revert]");
  if (button.dataset.sure !== "yes") {
    button.dataset.sure = "yes";
    button.classList.add("no");
    button.lastChild.before?.("");
    button.firstElementChild.nextSibling.textContent = " Take it back? ";
    setTimeout(() => {
      button.dataset.sure = "";
      button.classList.remove("no");
      button.firstElementChild.nextSibling.textContent = " Revert ";
    }, 4000);
    return;
  }
  button.disabled = true;
  try {
    const done = await postSigned(`${address}/revert`, { hunk: hunk.dataset.hunk, range: hunk.dataset.of });
    hunk.classList.add("gone");
    for (const each of hunk.querySelectorAll("button")) each.disabled = true;
    say(`Taken back in ${done.path}. \`remit restore undo\` brings it back.`);
  } catch (error) {
    say(error.message);
    button.disabled = false;
  }
}

// -- all together ----------------------------------------------------------------------------------------------

review.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  const hunk = button && hunkOf(button);
  if (!hunk) return;
  if (button.matches("[data-reviewed]")) toggleReviewed(hunk);
  else if (button.matches("[data-comment]")) openComment(hunk)?.focus();
  else if (button.matches("[data-revert]")) revert(hunk);
});
review.querySelector("[data-copy-summary]").addEventListener("click", async () => {
  const summary = review.querySelector("[data-summary]");
  if (!summary) return;
  try {
    await navigator.clipboard.writeText(summary.textContent);
    say("The summary is in the clipboard.");
  } catch {
    review.querySelector(".summary-text").open = true;
    say("The clipboard cannot be used: copy the text below.");
  }
});
const withHunk = (act) => () => {
  const hunk = chosenHunk();
  if (hunk) act(hunk);
};
onKeys({ x: withHunk(toggleReviewed), c: withHunk((hunk) => openComment(hunk)?.focus()), v: withHunk(revert) });

// -- the answers, when they come, and again --------------------------------------------------------------------

const part = review.querySelector('[data-part="review"]');
const againButton = review.querySelector("[data-again]");

function showDrafts() {
  for (const name of Object.keys(drafts)) {
    const hunk = review.querySelector(`[data-hunk="${name}"]`);
    if (hunk) openComment(hunk); // others stay: their hunks are in another view
  }
  keepDrafts();
}

async function readAgain() {
  againButton.hidden = true;
  try {
    putPart(part, await fetchPart("review"));
    showDrafts();
    if (location.hash) review.querySelector(`[id="${CSS.escape(location.hash.slice(1))}"]`)?.scrollIntoView();
  } catch {
    const line = document.createElement("p");
    line.className = "finding error";
    line.textContent = "The changes cannot be read now: `remit verify` in a terminal says why.";
    part.replaceChildren(line);
  }
}

againButton.addEventListener("click", readAgain);
let seen = null;
document.addEventListener("remit:state", (event) => {
  const now = event.detail.log_bytes[review.dataset.repository];
  if (seen !== null && seen !== now && !part.querySelector("[data-coming]")) againButton.hidden = false;
  seen = now;
});
showDrafts();
if (part.querySelector("[data-coming]")) readAgain();
