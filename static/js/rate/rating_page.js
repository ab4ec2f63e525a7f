// The rating page: shows one item at a time, prefetches the next, and holds a lease on each. A
// rating is shown as saved immediately; the outbox makes sure that the server saves it exactly
// once.
import { isText, onPageKey } from "../keys.js";
import { Outbox, post, randomUuid, unsentMessage, writtenText } from "../outbox.js";
import * as drafts from "./drafts.js";
import * as lease from "./lease.js";
import {
  createButton,
  createDismissButton,
  find,
  listenForReasons,
  openReasonDialog,
  parseItems,
  renderExplanation,
  renderQueueEnd,
  showError,
  showFieldErrors,
  showMessage,
  showSignedOutError,
} from "./rating_view.js";
import * as session from "./session.js";

const PREFETCH_COUNT = 2; // items to load ahead; the server sends fewer if few wait
const LOST_MESSAGE = "Another rater has this item now. Show the next item.";
const page = document.querySelector("[data-rating-page]");
const POLL_MS = Number(page.dataset.pollMs); // between requests while no item is available
const stage = find("[data-stage]");
const ratingBar = find("[data-rating-bar]");
const keys = JSON.parse(page.dataset.keys); // form ("" for all) → key → action
const queue = []; // the next items: { article, module }, or the state of an item shown before
const outbox = new Outbox("out", handleOutboxEvent);
let current = null; // { article, module, form, shownAt, firstKey, changes, spent, isLost }
let explainedUuid = null; // the norming rating whose explanation is shown or awaited
let isFetching = false;
let isReachable = true; // whether the last request for items succeeded
let isUndoing = false;
let pollTimer = 0;

/* the current item */

function showItem(item) {
  const { article } = item;
  const state = item.form ? item : createState(item);
  if (state !== item) {
    drafts.restore(state, (rollout, text) => openRewrite(state, rollout, text));
  }
  state.shownAt = performance.now();
  current = state;
  explainedUuid = null;
  stage.replaceChildren(article);
  ratingBar.hidden = false;
  find(".rating-bar [data-act=skip]").disabled = isNorming(article);
  find(".rating-bar [data-act=edit]").disabled = article.querySelector("[data-raw]") === null;
  lease.setCurrent(article);
  if (state.spent) lease.addTimeSpent(state.spent);
  rememberHeldItems();
  if (window.scrollY) window.scrollTo(0, 0);
  focusItem(state);
}

// Create the form of an item, and what is recorded about its rating.
function createState({ article, module }) {
  const pageApi = { showMessage, getCritique: () => find("[data-critique]", article).value };
  const form = module.createForm(article, pageApi);
  // `firstKey` is the time in ms until the first input.
  return { article, module, form, firstKey: null, changes: 0 };
}

const isNorming = (article) => "norming" in article.dataset;

function focusItem({ article, form }) {
  if (form.focus) form.focus();
  else if (article.dataset.form === "critique")
    find("[data-critique]", article).focus({ preventScroll: true });
  else article.focus({ preventScroll: true });
}

function rememberHeldItems() {
  lease.remember([current, ...queue].filter(Boolean).map((item) => item.article));
}

function showNext() {
  current = null;
  const next = queue.shift();
  if (next) showItem(next);
  else {
    showPlaceholder();
    showWaitingMessage();
  }
  fetchItems();
}

function showPlaceholder() {
  const line = document.createElement("p");
  line.className = "waiting quiet";
  stage.replaceChildren(line);
  ratingBar.hidden = true;
  lease.setCurrent(null);
}

// Show what an empty stage waits for. It changes when a request fails.
function showWaitingMessage() {
  const line = find(".waiting", stage);
  if (line && explainedUuid)
    line.textContent = outbox.hasFailed ? "Waiting for the server…" : "Checking your rating…";
  else if (line)
    line.textContent =
      outbox.hasFailed || !isReachable ? "Waiting for the server…" : "Loading the next item…";
}

/* loading items */

// Fetch items until enough are ready. The server sends none while the rater holds enough or none
// wait. If no item follows the current one, poll for new items.
async function fetchItems() {
  const count = PREFETCH_COUNT - queue.length + (current ? 0 : 1);
  if (isFetching || count < 1) return;
  isFetching = true;
  clearTimeout(pollTimer);
  try {
    const response = await post(`${page.dataset.next}?${itemsQuery(count)}`, {});
    if (response.status === 401) return showSignedOut();
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    lease.clearReclaim();
    isReachable = true;
    for (const item of response.status === 204 ? [] : await parseItems(response)) {
      lease.add(item.article);
      if (current || explainedUuid) queue.push(item);
      else showItem(item);
    }
    rememberHeldItems();
    if (!current && !explainedUuid) await showEnd(response.headers.get("X-Waiting"));
    else if (!queue.length) schedulePoll();
  } catch {
    isReachable = false;
    pollTimer = setTimeout(fetchItems, POLL_MS);
  } finally {
    isFetching = false;
    showWaitingMessage();
  }
}

function itemsQuery(count) {
  const items = [current, ...queue].filter(Boolean);
  const ready = items.map((item) => item.article.dataset.slot).join(",");
  return new URLSearchParams({ run: page.dataset.run, count, ready, ...lease.reclaimParams() });
}

// Show that no items are left, and poll for new ones.
async function showEnd(waiting = null) {
  if (outbox.waiting().length) return; // after these are sent, the server may send an item
  await renderQueueEnd(stage, waiting, lease.heldSlots());
  ratingBar.hidden = true;
  schedulePoll();
}

function schedulePoll() {
  clearTimeout(pollTimer);
  pollTimer = setTimeout(() => {
    if (document.visibilityState === "visible") fetchItems();
    else if (current || explainedUuid) schedulePoll();
    else showEnd();
  }, POLL_MS);
}

/* rating */

function saveDraft() {
  if (current && !drafts.save(current))
    showMessage("This browser’s storage is full: what you type is lost if you reload the page.");
}

// Show errors at texts that are too long. Returns whether there are any.
function isTooLong(article, critique, answer) {
  const errors = drafts.findTooLong(Number(article.dataset.maxLength), critique, answer);
  showFieldErrors(article, errors);
  return Object.keys(errors).length > 0;
}

function submit() {
  if (!current) return;
  if (current.isLost) return showMessage(LOST_MESSAGE);
  const { article, form } = current;
  const answer = form.getAnswer();
  if (answer === null) return showMessage(form.missingMessage());
  const critique = find("[data-critique]", article).value;
  if (isTooLong(article, critique, answer)) return find("[aria-invalid]", article)?.focus();
  const summary = form.summarize(answer);
  const entry = createEntry("", { form: article.dataset.form, answer, critique });
  if (isNorming(article)) entry.norming = summary;
  sendRating(entry, summary);
}

// Create the outbox entry of a rating or a flag of the current item.
function createEntry(verb, fields) {
  const { article, firstKey, changes } = current;
  const uuid = randomUuid();
  const body = {
    client_uuid: uuid,
    ...lease.fields(article),
    ...fields,
    seconds: Math.round(lease.timeSpent()) / 1000,
    first_key_ms: firstKey,
    changes,
  };
  return { uuid, url: lease.address(article, verb), body };
}

// Send a rating and show the next item without waiting for the server.
function sendRating(entry, summary) {
  const { article } = current;
  current.spent = lease.timeSpent();
  session.record(entry.uuid, summary, current);
  drafts.remove(article.dataset.item);
  lease.remove(article);
  showError("");
  if (entry.norming) awaitExplanation(entry.uuid);
  else showNext();
  outbox.add({ ...entry, item: article.dataset.item });
  if (!entry.norming) showMessage(`Saved: ${summary}.`, true);
}

function askForReason(verb) {
  if (!current) return;
  if (current.isLost) return showMessage(LOST_MESSAGE);
  if (verb === "skip" && isNorming(current.article))
    return showMessage("Everybody rates the norming items, so you can’t skip one.");
  openReasonDialog(verb);
}

function handleReason(verb, reason) {
  if (!current) return;
  if (current.isLost) return showMessage(LOST_MESSAGE);
  if (verb === "skip") skipItem(reason);
  else flagItem(reason);
}

function skipItem(reason) {
  const { article } = current;
  drafts.remove(article.dataset.item);
  lease.remove(article);
  const entry = {
    uuid: randomUuid(),
    url: lease.address(article, "skip/"),
    body: { fence: Number(article.dataset.fence), reason },
  };
  showNext();
  outbox.add(entry);
  showMessage("Skipped. Another rater gets this item.");
}

// Flag the item as broken; of several replies, the focused one.
function flagItem(reason) {
  const { article, form } = current;
  const hasSeveral = article.dataset.members.includes(",");
  const focused = hasSeveral && form.focusedRollout();
  const rollout = focused ? { rollout: Number(focused) } : {};
  const entry = createEntry("flag/", { form: "flag", reason, ...rollout });
  sendRating(entry, `flagged, ${reason}`);
}

/* norming: the explanation of a rating comes before the next item */

function awaitExplanation(uuid) {
  current = null;
  explainedUuid = uuid;
  showPlaceholder();
  find(".waiting", stage).textContent = "Checking your rating…";
  showMessage("");
  fetchItems();
}

function closeExplanation() {
  explainedUuid = null;
  showNext();
}

/* undoing */

// Undo the last rating. A second undo waits for the first, which would be undone again otherwise.
async function undo() {
  if (isUndoing) return setTimeout(undo, 50);
  isUndoing = true;
  return undoLast().finally(() => (isUndoing = false));
}

async function undoLast() {
  const last = session.last();
  if (!last) return showMessage("Nothing to undo.");
  if (session.itemOf(last.uuid) && outbox.retract(last.uuid)) return restoreRated(last, null);
  if (outbox.isPending(last.uuid))
    return outbox.hasFailed
      ? showMessage("The rating is being sent. Undo it when the server responds.")
      : setTimeout(undo, 50);
  let response;
  try {
    response = await post("/rate/undo/", { client_uuid: last.uuid, new_uuid: randomUuid() });
  } catch {
    return showMessage("The server is not responding, so the rating can’t be undone now.");
  }
  if (response.status === 401) return showSignedOut();
  if (response.ok) return restoreRated(last, (await parseItems(response))[0]);
  session.forget(last.uuid);
  return showMessage((await response.json()).detail ?? "The rating couldn’t be undone.");
}

// Show the item of an undone rating again: as the rater left it if this page still has it, with the
// new lease in `item` if the server has sent one; otherwise as the server has sent it.
function restoreRated(last, item) {
  const state = session.itemOf(last.uuid);
  session.revert(last.uuid);
  if (state && item) {
    const { slot, fence, version, lease: leaseSeconds } = item.article.dataset;
    Object.assign(state.article.dataset, { slot, fence, version, lease: leaseSeconds });
  }
  returnCurrentToQueue();
  const restored = state ?? item;
  lease.add(restored.article);
  showItem(restored);
  showMessage(`Undone: ${last.words}.`);
}

function returnCurrentToQueue() {
  if (!current) return;
  if (current.changes) saveDraft();
  current.spent = lease.timeSpent();
  if (current.isLost) showError("");
  else queue.unshift(current);
  current = null;
}

/* responses to ratings */

function showUnsent() {
  const count = outbox.waiting().length;
  const line = find("[data-outbox]");
  line.hidden = !count || !outbox.hasFailed;
  line.textContent = unsentMessage(count);
}

function handleOutboxEvent(event) {
  showUnsent();
  showWaitingMessage();
  if (event.kind === "signed-out") showSignedOut();
  else if (event.kind === "answered") handleResponse(event.entry, event.status, event.body);
}

function handleResponse(entry, status, body) {
  if (status >= 200 && status < 300) handleSaved(entry, status, body);
  else if (status === 422) handleInvalid(entry, body.fields ?? {});
  else {
    session.revert(entry.uuid);
    if (explainedUuid === entry.uuid) closeExplanation();
    showRejected(entry, `${body.detail ?? "A rating couldn’t be saved."} ${body.next ?? ""}`);
  }
  fetchItems();
}

function handleSaved(entry, status, body) {
  if (body.gold && explainedUuid === entry.uuid) renderExplanation(stage, entry.norming, body.gold);
  else if (body.gold) showMessage(session.recordGold(body.gold, status === 201), true);
  else if (body.is_late)
    showMessage("Saved, but too late for training: the group was already closed.", true);
}

// Show an error about a rating that is gone from the page, with the text that the rater wrote.
function showRejected(entry, message) {
  const text = writtenText(entry);
  showError(message, ...(text ? [drafts.createSavedText(text)] : []), createDismissButton());
}

// Show an invalid rating again with its errors, if the page still has the item.
function handleInvalid(entry, errors) {
  const state = session.itemOf(entry.uuid);
  session.revert(entry.uuid);
  if (!state) {
    const details = Object.entries(errors).map(([name, message]) => `${name} ${message}`);
    return showRejected(entry, `A rating was not saved: ${details.join("; ")}.`);
  }
  returnCurrentToQueue();
  lease.add(state.article);
  showItem(state);
  saveDraft();
  showFieldErrors(state.article, errors);
  return showMessage("The rating was not saved. Fix it and submit it again.");
}

function showSignedOut() {
  if (current) saveDraft();
  showSignedOutError();
}

// Another rater has the item now. `problem` is null if the rater is signed out.
function handleLostLease(article, problem) {
  if (problem === null) return showSignedOut();
  const index = queue.findIndex((item) => item.article === article);
  if (index >= 0) {
    queue.splice(index, 1);
    rememberHeldItems();
  } else if (current?.article === article) showLost(problem);
  return fetchItems();
}

function showLost(problem) {
  saveDraft();
  current.isLost = true;
  ratingBar.hidden = true;
  const button = createButton("Show next item", () => {
    showError("");
    showNext();
  });
  showError(`${problem.detail} Your input is kept here. `, button);
}

/* guidelines, critique and rewrite */

async function toggleGuidelines() {
  const panel = find("[data-guide]");
  const run = current?.article.dataset.run ?? page.dataset.run;
  const opens = panel.hidden || (run && panel.dataset.run !== run);
  try {
    if (opens && run) await (await import("./guidelines.js")).fillGuidelines(panel, run);
  } catch {
    return showMessage("The guidelines can’t be loaded now.");
  }
  panel.hidden = !opens;
  page.classList.toggle("guided", opens);
  find(".rating-bar [data-act=guidelines]").setAttribute("aria-expanded", String(opens));
}

function openCritique() {
  if (!current) return;
  find("[data-critique-box]", current.article).hidden = false;
  find("[data-critique]", current.article).focus();
}

async function openRewrite(state, rollout, text) {
  const panel = await import("./rewrite_panel.js");
  if (state !== current) return;
  const template = find("[data-rewrite-panel]");
  if (!panel.openRewrite(state.article, template, rollout, text, saveRewrite))
    showMessage("Only replies with one turn can be rewritten.");
}

function saveRewrite(rollout, text, original) {
  const { article } = current;
  if (isTooLong(article, "", { text })) return false;
  if (!text.trim() || text === original) {
    showMessage("Change the text first, or discard the rewrite.");
    return false;
  }
  const uuid = randomUuid();
  outbox.add({
    uuid,
    url: lease.address(article, "rewrite/"),
    item: article.dataset.item,
    body: {
      client_uuid: uuid,
      fence: Number(article.dataset.fence),
      rollout: Number(rollout),
      text,
    },
  });
  showMessage("Rewrite saved as a demonstration. You can still rate the reply.");
  return true;
}

function editReply() {
  if (current?.isLost) return showMessage(LOST_MESSAGE);
  if (!current || current.form.onAction("edit")) return;
  const rollout = current.form.focusedRollout() ?? current.article.dataset.members.split(",")[0];
  openRewrite(current, rollout);
}

/* keys, pointer and touch */

const REPEATABLE_ACTIONS = ["next", "previous"]; // the only ones that a key held down repeats
const ACTIONS = {
  submit,
  undo,
  critique: openCritique,
  edit: editReply,
  guidelines: toggleGuidelines,
  skip: () => askForReason("skip"),
  flag: () => askForReason("flag"),
};

// Handle a key of the page. Returns true if it has a meaning.
function handleKey(key, event) {
  const action = (current && keys[current.article.dataset.form]?.[key]) ?? keys[""][key];
  const isDigit = /^[0-9]$/.test(key);
  if (event.repeat && (action || isDigit) && !REPEATABLE_ACTIONS.includes(action)) return true;
  if (key === "Escape" && !find("[data-guide]").hidden) {
    toggleGuidelines();
    return true;
  }
  if (action === "submit" && find("[data-continue]", stage)) {
    closeExplanation();
    return true;
  }
  if (action in ACTIONS) {
    ACTIONS[action]();
    return true;
  }
  return current !== null && handleFormKey(key, action);
}

function handleFormKey(key, action) {
  const { form } = current;
  if (action) return form.onAction(action);
  if (!/^[0-9]$/.test(key)) return key.startsWith("Arrow") && form.onArrow(key);
  if (!form.onDigit(key)) return false;
  autoSubmit();
  return true;
}

// Handle a key in a text field of the item.
function handleTextKey(event) {
  if (event.defaultPrevented || event.isComposing) return;
  const isSubmit =
    event.key === "Enter" &&
    (event.ctrlKey || event.metaKey) &&
    !event.altKey &&
    !event.shiftKey &&
    !event.repeat;
  if (event.key === "Escape") {
    event.preventDefault();
    current?.article.focus({ preventScroll: true });
  } else if (isSubmit) {
    event.preventDefault();
    const panel = event.target.closest("[data-rewrite-box]");
    if (panel) find("[data-keep-rewrite]", panel).click();
    else submit();
  }
}

// Submit after a single key if the rater has turned that on and has written no critique.
function autoSubmit() {
  if (!current?.form.isSingleKey || !find("[data-auto-submit]").checked) return;
  if (!find("[data-critique]", current.article).value) submit();
}

function recordFirstInput() {
  if (current && current.firstKey === null) current.firstKey = Math.round(lease.timeSpent());
}

function handleSwipe(side) {
  if (!current) return;
  if (current.form.onSwipe) current.form.onSwipe(side);
  if (current.form.onSwipe || side === "right") submit();
  else askForReason("skip");
}

onPageKey(
  (key, event) => {
    recordFirstInput();
    return handleKey(key, event);
  },
  { repeats: true },
);
stage.addEventListener("keydown", (event) => {
  recordFirstInput();
  if (isText(event.target)) handleTextKey(event);
});
stage.addEventListener("pointerdown", recordFirstInput);
stage.addEventListener("submit", (event) => event.preventDefault());
stage.addEventListener("input", (event) => {
  if (!current) return;
  if (isText(event.target)) saveDraft();
  if (event.target.name === "critique") showFieldErrors(current.article, {});
});
stage.addEventListener("change", (event) => {
  if (!current) return;
  saveDraft();
  current.changes += 1;
  if (event.target.name === "critique") showFieldErrors(current.article, {});
});

page.addEventListener("click", (event) => {
  const action = event.target.closest("[data-act]")?.dataset.act;
  const isRepeated = action === "submit" && event.detail > 1; // would submit the next item, unread
  if (action in ACTIONS && !isRepeated) ACTIONS[action]();
  if (event.target.closest("[data-continue]")) closeExplanation();
  const slots = event.target.closest("[data-reclaim-slots]")?.dataset.reclaimSlots;
  if (slots) {
    lease.reclaim(slots);
    stage.replaceChildren();
    fetchItems();
  }
});

/* start */

listenForReasons(handleReason, () => current?.article.focus({ preventScroll: true }));
if (window.matchMedia("(any-pointer: coarse)").matches)
  (await import("./swipe.js")).listenForSwipes(stage, find("[data-swipes]"), handleSwipe);
lease.start(handleLostLease);
outbox.start();
showUnsent();
fetchItems();
