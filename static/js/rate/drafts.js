// What is half done, kept in this browser by its item until it is sent: it survives a reload, and
// being signed out.
import { keysOf, read, write } from "../outbox.js";

const DRAFT = `rate:${document.body.dataset.user}:draft:`;
const KEPT_MS = 7 * 24 * 3600 * 1000;

for (const key of keysOf(DRAFT))
  if (!(read(key)?.at > Date.now() - KEPT_MS)) localStorage.removeItem(key);

// Returns false when this browser has no room left.
export function save({ article, form }) {
  const beside = article.querySelector("[data-beside] [data-rewrite]");
  const draft = {
    members: article.dataset.members,
    state: form.state(),
    critique: article.querySelector("[data-critique]").value,
    beside: beside && [beside.id.slice(7), beside.value],
  };
  return write(DRAFT + article.dataset.item, { ...draft, at: Date.now() });
}

// Puts back what was kept of the item; `openBeside(rollout, text)` opens a rewrite that was begun.
export function restore({ article, form }, openBeside) {
  const kept = read(DRAFT + article.dataset.item);
  if (!kept) return;
  // Given back and taken again, the replies may stand in another order.
  form.restore(kept.state, kept.members !== article.dataset.members);
  if (kept.critique) {
    article.querySelector("[data-critique]").value = kept.critique;
    article.querySelector("[data-critique-box]").hidden = false;
  }
  if (kept.beside) queueMicrotask(() => openBeside(...kept.beside));
}

export function drop(item) {
  localStorage.removeItem(DRAFT + item);
}

// What of an answer has more characters than are taken: words by field.
export function tooLong(most, critique, answer) {
  const fields = {};
  const words = (text) =>
    `has ${text.length.toLocaleString("en")} characters; the maximum is ${most.toLocaleString("en")}`;
  if ([...critique].length > most) fields.critique = words(critique);
  if (typeof answer?.text === "string" && [...answer.text].length > most)
    fields.text = words(answer.text);
  return fields;
}

// Words that had no home any more: shown, so that they can be copied, until their writer lets them
// go.
export function keptText(text) {
  const details = document.createElement("details");
  details.open = true;
  const box = document.createElement("textarea");
  Object.assign(box, { value: text, rows: 3, readOnly: true, dir: "auto" });
  box.setAttribute("aria-label", "Your unsaved text");
  details.append(
    Object.assign(document.createElement("summary"), { textContent: "Your unsaved text" }),
    box,
  );
  return details;
}
