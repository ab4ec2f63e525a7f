// Drafts of unfinished ratings, stored in the browser for each item until the rating is sent. They
// survive a reload and a sign-out.
import { keysOf, read, write } from "../outbox.js";

const PREFIX = `rate:${document.body.dataset.user}:draft:`;
const MAX_AGE_MS = 7 * 24 * 3600 * 1000;

for (const key of keysOf(PREFIX))
  if (!(read(key)?.at > Date.now() - MAX_AGE_MS)) localStorage.removeItem(key);

// Save a draft. Returns false if the browser's storage is full.
export function save({ article, form }) {
  const rewrite = article.querySelector("[data-rewrite-box] [data-rewrite]");
  const draft = {
    members: article.dataset.members,
    state: form.saveState(),
    critique: article.querySelector("[data-critique]").value,
    beside: rewrite && [rewrite.id.slice(7), rewrite.value],
  };
  return write(PREFIX + article.dataset.item, { ...draft, at: Date.now() });
}

// Restore the draft of an item. `openRewrite(rollout, text)` opens a rewrite that was begun.
export function restore({ article, form }, openRewrite) {
  const draft = read(PREFIX + article.dataset.item);
  if (!draft) return;
  // The replies may be in another order than when the draft was saved.
  form.restoreState(draft.state, draft.members !== article.dataset.members);
  if (draft.critique) {
    article.querySelector("[data-critique]").value = draft.critique;
    article.querySelector("[data-critique-box]").hidden = false;
  }
  if (draft.beside) queueMicrotask(() => openRewrite(...draft.beside));
}

export function remove(item) {
  localStorage.removeItem(PREFIX + item);
}

// Return an error by field for texts that are too long.
export function findTooLong(maxLength, critique, answer) {
  const fields = {};
  const message = (text) =>
    `has ${text.length.toLocaleString("en")} characters; the maximum is ${maxLength.toLocaleString("en")}`;
  if ([...critique].length > maxLength) fields.critique = message(critique);
  if (typeof answer?.text === "string" && [...answer.text].length > maxLength)
    fields.text = message(answer.text);
  return fields;
}

// Create an element that shows text of a rejected rating, so that the rater can copy it.
export function createSavedText(text) {
  const details = document.createElement("details");
  details.open = true;
  const textarea = document.createElement("textarea");
  Object.assign(textarea, { value: text, rows: 3, readOnly: true, dir: "auto" });
  textarea.setAttribute("aria-label", "Your unsaved text");
  details.append(
    Object.assign(document.createElement("summary"), { textContent: "Your unsaved text" }),
    textarea,
  );
  return details;
}
