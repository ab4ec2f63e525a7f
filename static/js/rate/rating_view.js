// What the rating page shows around an item: messages and errors, the end of the queue,
// explanations of norming items, and the dialogs that ask for a reason. One module keeps the page's
// requests few.
import { onDialogKey } from "../keys.js";

const MESSAGE_MS = 6000;
const page = document.querySelector("[data-rating-page]");
const END_REFRESH_MS = Number(page.dataset.endRefreshMs);
let messageTimer = 0;
let endRenderedAt = 0;

export const find = (selector, root = page) => root.querySelector(selector);

// Show a message for a few seconds, with the undo button if `canUndo`.
export function showMessage(message, canUndo = false) {
  find("[data-status]").textContent = message;
  find("[data-act=undo]").hidden = !canUndo;
  clearTimeout(messageTimer);
  messageTimer = setTimeout(() => {
    find("[data-status]").textContent = "";
    find("[data-act=undo]").hidden = true;
  }, MESSAGE_MS);
}

// Show an error until the next call; "" hides it.
export function showError(message, ...nodes) {
  const box = find("[data-error]");
  box.replaceChildren(message, ...nodes);
  box.hidden = !message;
}

// Show that the rater is signed out, unless it is shown: the focus may be on its link.
export function showSignedOutError() {
  if (find("[data-error] [data-log-in]")) return;
  const link = document.createElement("a");
  const next = encodeURIComponent(location.pathname + location.search);
  link.dataset.logIn = "";
  link.href = `${page.dataset.login}?next=${next}`;
  Object.assign(link, { className: "link", textContent: "Log in" });
  showError(
    "You are signed out. Your browser keeps your ratings and sends them after you log in. ",
    link,
  );
}

export function createButton(label, onClick) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", textContent: label });
  button.addEventListener("click", onClick);
  return button;
}

export function createDismissButton() {
  return createButton("Dismiss", () => showError(""));
}

// Show errors beside the fields of an item, and hide those shown before.
export function showFieldErrors(article, errors) {
  for (const element of article.querySelectorAll("[data-field-error]")) element.hidden = true;
  for (const box of article.querySelectorAll("[aria-invalid]")) box.removeAttribute("aria-invalid");
  for (const [name, message] of Object.entries(errors)) {
    const element =
      find(`[data-field-error="${CSS.escape(name.split(".")[0])}"]`, article) ??
      find('[data-field-error=""]', article);
    element.textContent =
      element.dataset.fieldError === name
        ? `${message[0].toUpperCase()}${message.slice(1)}.`
        : `${name}: ${message}`;
    element.hidden = false;
    find(`textarea[name="${CSS.escape(name)}"]`, article)?.setAttribute("aria-invalid", "true");
  }
}

/* fragments of the server */

// Parse the items of a response. The fragments come from our own server; model output in them is
// escaped, and no scripts in them run.
export async function parseItems(response) {
  const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
  const articles = [...parsed.querySelectorAll("[data-item]")].map((article) =>
    document.importNode(article, true),
  );
  return Promise.all(
    articles.map(async (article) => ({ article, module: await import(article.dataset.script) })),
  );
}

// Show the end of the queue. `waiting` is a digest of what the server counted when it had no item
// to send, or null if it is unknown. Render again when the digest has changed; and now and then,
// because the numbers change as updates use the ratings.
export async function renderQueueEnd(stage, waiting, heldSlots) {
  const shownDigest = find("[data-queue-end]", stage)?.dataset.waitingDigest;
  const hasChanged = waiting !== null && waiting !== shownDigest;
  const isOld = waiting !== null && performance.now() - endRenderedAt > END_REFRESH_MS;
  if (shownDigest !== undefined && !hasChanged && !isOld) return;
  const query = new URLSearchParams({ run: page.dataset.run, holding: heldSlots.join(",") });
  const response = await fetch(`${page.dataset.end}?${query}`, { redirect: "error" });
  if (!response.ok) throw new Error("no end");
  const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
  const end = document.importNode(find("[data-queue-end]", parsed), true);
  stage.replaceChildren(end);
  endRenderedAt = performance.now();
  showBadge(end.dataset.badge);
}

// Update the count in the navigation, so that it agrees with what the page shows.
function showBadge(count) {
  const badge = document.querySelector("[data-waiting-badge]");
  badge.textContent = count;
  badge.hidden = !count;
}

/* explanations and reasons */

// Show the correct rating of a norming item after the rater's own. `rating` is the rater's rating
// in words, `gold` the server's answer about the correct one.
export function renderExplanation(stage, rating, gold) {
  const card = document.importNode(find("[data-gold-feedback]").content.firstElementChild, true);
  find("[data-verdict]", card).textContent = gold.met
    ? "Correct"
    : "The correct rating is different";
  find("[data-your-rating]", card).textContent = rating;
  find("[data-correct]", card).textContent = gold.words;
  find("[data-other-ratings]", card).textContent =
    `${gold.others.met} of ${gold.others.of} gave the correct rating`;
  find("[data-explanation]", card).textContent = gold.explanation;
  stage.replaceChildren(card);
  card.focus({ preventScroll: true });
}

// Ask why the rater skips or flags the item. `verb` is "skip" or "flag".
export function openReasonDialog(verb) {
  const dialog = find(`[data-reasons=${verb}]`);
  find("[data-reason-text]", dialog).value = "";
  dialog.showModal();
}

// Call onReason(verb, reason) when a rater has chosen or written a reason, and onClose() whenever a
// dialog closes.
export function listenForReasons(onReason, onClose) {
  for (const dialog of document.querySelectorAll("[data-reasons]")) {
    bindDialog(dialog, onReason);
    dialog.addEventListener("close", onClose);
  }
}

function bindDialog(dialog, onReason) {
  const field = find("[data-reason-text]", dialog);
  const verb = dialog.dataset.reasons;

  function choose(reason) {
    dialog.close();
    onReason(verb, reason);
  }

  // A reason is required for flags only.
  function submitText() {
    const reason = field.value.trim();
    if (verb === "flag" && !reason) field.focus();
    else choose(reason);
  }

  dialog.addEventListener("click", (event) => {
    const button = event.target.closest("[data-reason]");
    if (button) choose(button.dataset.reason);
    else if (event.target.closest("[data-send-reason]")) submitText();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    if (!event.repeat) submitText();
  });
  onDialogKey(dialog, (key) => {
    const button = find(`[data-digit="${CSS.escape(key)}"]`, dialog);
    button?.click();
    return button !== null;
  });
}
