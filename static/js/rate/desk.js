// The rating page: one decision on the stage, the next ones ready behind it, each held by a lease.
// An answer shows as taken at once; the outbox sees to it that the server has it once.
import { isText, onDialogKey, onPageKey } from "../keys.js";
import { Outbox, keptWords, post, wordsOf } from "../outbox.js";
import * as drafts from "./drafts.js";
import * as lease from "./lease.js";
import * as session from "./session.js";

const AHEAD = 2; // items ready behind the one on the stage; the server gives fewer while few wait
const UNDO_SHOWN_MS = 6000;
const NOT_YOURS = "Another rater has this item now. Show the next item.";
const BESIDE = () => import("./beside.js");
const desk = document.querySelector("[data-desk]");
// Between two calls for items while none is ready.
const LOOK_AGAIN_MS = Number(desk.dataset.looksAgain);
// After which the effect of the own ratings is asked for again.
const END_MS = Number(desk.dataset.endAgain);
const find = (selector, root = desk) => root.querySelector(selector);
const stage = find("[data-stage]");
const keys = JSON.parse(desk.dataset.keys);
const user = document.body.dataset.user;
const ahead = []; // { article, module }
const outbox = new Outbox("out", onResult);
let shown = null; // { article, form, shownAt, firstKey, changes, replaces }
// Uuid of the norming rating whose explanation is on the stage, or awaited there.
let explaining = null;
let fetching = false;
let isAnswered = true; // the last call for items was
const HANDS = `rate:${user}:hands`;
// { again, fences } of the page before this one in this tab.
let again = JSON.parse(sessionStorage.getItem(HANDS) ?? "null");
if (desk.dataset.again) {
  again = { again: desk.dataset.again };
  window.history.replaceState(
    null,
    "",
    desk.dataset.run ? `?run=${desk.dataset.run}` : window.location.pathname,
  ); // once
}
let looking = 0;
let fading = 0;

/* words */

function say(words, canUndo = false) {
  find("[data-said]").textContent = words;
  find("[data-act=undo]").hidden = !canUndo;
  clearTimeout(fading);
  fading = setTimeout(() => {
    find("[data-said]").textContent = "";
    find("[data-act=undo]").hidden = true;
  }, UNDO_SHOWN_MS);
}

function trouble(words, ...more) {
  const place = find("[data-trouble]");
  place.replaceChildren(words, ...more);
  place.hidden = !words;
}

function button(words, act) {
  const made = document.createElement("button");
  Object.assign(made, { type: "button", textContent: words });
  made.addEventListener("click", act);
  return made;
}

function showOutbox() {
  const count = outbox.waiting().length;
  const line = find("[data-outbox]");
  line.hidden = !count || !outbox.hasFailed;
  line.textContent = keptWords(count);
}

function wrong(article, fields) {
  for (const place of article.querySelectorAll("[data-wrong]")) place.hidden = true;
  for (const box of article.querySelectorAll("[aria-invalid]")) box.removeAttribute("aria-invalid");
  for (const [name, words] of Object.entries(fields)) {
    const place =
      find(`[data-wrong="${CSS.escape(name.split(".")[0])}"]`, article) ??
      find('[data-wrong=""]', article);
    place.textContent =
      place.dataset.wrong === name
        ? `${words[0].toUpperCase()}${words.slice(1)}.`
        : `${name}: ${words}`;
    place.hidden = false;
    find(`textarea[name="${CSS.escape(name)}"]`, article)?.setAttribute("aria-invalid", "true");
  }
}

/* the stage */

// Our own server's fragments; model output in them is escaped, and nothing in them runs.
async function itemsOf(answer) {
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  const articles = [...parsed.querySelectorAll("[data-item]")].map((article) =>
    document.importNode(article, true),
  );
  return Promise.all(
    articles.map(async (article) => ({ article, module: await import(article.dataset.script) })),
  );
}

function put(item, state) {
  const { article } = item;
  if (!state) {
    const host = {
      say,
      critique: () => find("[data-critique]", article).value,
    };
    state = {
      article,
      module: item.module,
      form: item.module.begin(article, host),
      firstKey: null,
      changes: 0,
    };
    const opened = state;
    drafts.restore(state, (rollout, text) => openBeside(opened, rollout, text));
  }
  state.shownAt = performance.now();
  shown = state;
  explaining = null;
  stage.replaceChildren(article);
  find("[data-deck]").hidden = false;
  find(".deck [data-act=skip]").disabled = "norming" in article.dataset;
  find(".deck [data-act=edit]").disabled = article.querySelector("[data-raw]") === null;
  lease.attend(article);
  if (state.spent) lease.spentBefore(state.spent);
  remember();
  if (window.scrollY) window.scrollTo(0, 0);
  if (state.form.start) state.form.start();
  else if (article.dataset.form === "critique")
    find("[data-critique]", article).focus({ preventScroll: true });
  else article.focus({ preventScroll: true });
}

function remember() {
  const articles = [shown?.article, ...ahead.map((item) => item.article)].filter(Boolean);
  const each = (name) => articles.map((article) => article.dataset[name]).join(",");
  sessionStorage.setItem(HANDS, JSON.stringify({ again: each("slot"), fences: each("fence") }));
}

function advance() {
  shown = null;
  const next = ahead.shift();
  if (next) put(next, next.form && next);
  else {
    stage.replaceChildren(
      Object.assign(document.createElement("p"), { className: "waiting quiet" }),
    );
    showWaiting();
    find("[data-deck]").hidden = true;
    lease.attend(null);
  }
  fill();
}

// What an empty stage waits for: a call that is under way now may fail later.
function showWaiting() {
  const line = find(".waiting", stage);
  if (line && explaining)
    line.textContent = outbox.hasFailed ? "Waiting for the server…" : "Checking your rating…";
  else if (line)
    line.textContent =
      outbox.hasFailed || !isAnswered ? "Waiting for the server…" : "Loading the next item…";
}

// Fetch until enough is ready. The server gives nothing while hands are full or nothing waits. With
// nothing ready behind the item on the stage, ask again now and then: new items may have come.
async function fill() {
  const count = AHEAD - ahead.length + (shown ? 0 : 1);
  if (fetching || count < 1) return;
  fetching = true;
  clearTimeout(looking);
  try {
    const ready = [shown, ...ahead]
      .filter(Boolean)
      .map((item) => item.article.dataset.slot)
      .join(",");
    const query = new URLSearchParams({ run: desk.dataset.run, count, ready, ...again });
    const answer = await post(`${desk.dataset.next}?${query}`, {});
    if (answer.status === 401) return signedOut();
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    again = null;
    isAnswered = true;
    for (const item of answer.status === 204 ? [] : await itemsOf(answer)) {
      lease.hold(item.article);
      if (shown || explaining) ahead.push(item);
      else put(item);
    }
    remember();
    if (!shown && !explaining) await showEnd(answer.headers.get("X-Waiting"));
    else if (!ahead.length) lookAgain();
  } catch {
    isAnswered = false;
    looking = setTimeout(fill, LOOK_AGAIN_MS);
  } finally {
    fetching = false;
    showWaiting();
  }
}

// `waiting`: what the server counted when it had no item to give. The end is drawn again when that
// has changed, and now and then, because updates take the ratings that it counts.
let endDrawn = 0;
async function showEnd(waiting = null) {
  if (outbox.waiting().length) return; // what is on its way may free a hand
  const drawn = find("[data-nothing]", stage)?.dataset.waitingDigest;
  const isOld = waiting !== null && performance.now() - endDrawn > END_MS;
  if (drawn === undefined || (waiting !== null && waiting !== drawn) || isOld) {
    const query = new URLSearchParams({
      run: desk.dataset.run,
      holding: lease.holding().join(","),
    });
    const answer = await fetch(`${desk.dataset.end}?${query}`);
    if (!answer.ok) throw new Error("no end");
    const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
    const end = document.importNode(find("[data-nothing]", parsed), true);
    stage.replaceChildren(end);
    endDrawn = performance.now();
    showBadge(end.dataset.badge);
    find("[data-deck]").hidden = true;
  }
  lookAgain();
}

function lookAgain() {
  clearTimeout(looking);
  looking = setTimeout(() => {
    if (document.visibilityState === "visible") fill();
    else if (shown || explaining) lookAgain();
    else showEnd();
  }, LOOK_AGAIN_MS);
}

// The frame's count, so that it never contradicts what the stage shows.
function showBadge(count) {
  const badge = document.querySelector("[data-waiting-badge]");
  badge.textContent = count;
  badge.hidden = !count;
}

/* drafts */

function saveDraft() {
  if (shown && !drafts.save(shown))
    say("This browser’s storage is full: what you type is lost if you reload the page.");
}

/* taking, skipping, undoing */

function tooLong(article, critique, answer) {
  const fields = drafts.tooLong(Number(article.dataset.longest), critique, answer);
  wrong(article, fields);
  return Object.keys(fields).length > 0;
}

function submit() {
  if (!shown) return;
  if (shown.isLost) return say(NOT_YOURS);
  const { article, form } = shown;
  const answer = form.answer();
  if (answer === null) return say(form.missing());
  const critique = find("[data-critique]", article).value;
  if (tooLong(article, critique, answer)) return find("[aria-invalid]", article)?.focus();
  const uuid = crypto.randomUUID();
  const body = {
    client_uuid: uuid,
    ...fenced(article),
    form: article.dataset.form,
    answer,
    critique,
    seconds: Math.round(lease.msSpent()) / 1000,
    first_key_ms: shown.firstKey,
    changes: shown.changes,
  };
  const words = form.describe(answer);
  const norming = "norming" in article.dataset ? { norming: words } : {};
  take({ uuid, url: lease.address(article), body, ...norming }, words);
}

function fenced(article) {
  return { fence: Number(article.dataset.fence), version: Number(article.dataset.version) };
}

// Shown as taken; on its way; the next is on the stage.
function take(entry, words) {
  const { article } = shown;
  const sealed = { ...entry, item: article.dataset.item };
  shown.spent = lease.msSpent();
  session.took(entry.uuid, words, shown);
  drafts.drop(article.dataset.item);
  lease.letGo(article);
  trouble("");
  if (entry.norming) awaitExplanation(entry.uuid);
  else advance();
  outbox.put(sealed);
  if (!entry.norming) say(`Saved: ${words}.`, true);
}

/* norming: the next item comes after the explanation of the last */

function awaitExplanation(uuid) {
  shown = null;
  explaining = uuid;
  stage.replaceChildren(
    Object.assign(document.createElement("p"), {
      className: "waiting quiet",
      textContent: "Checking your rating…",
    }),
  );
  find("[data-deck]").hidden = true;
  lease.attend(null);
  say("");
  fill();
}

function explain(entry, gold) {
  const card = document.importNode(find("[data-explained]").content.firstElementChild, true);
  find("[data-verdict]", card).textContent = gold.met
    ? "Correct"
    : "The correct rating is different";
  find("[data-yours]", card).textContent = entry.norming;
  find("[data-correct]", card).textContent = gold.words;
  find("[data-others]", card).textContent =
    `${gold.others.met} of ${gold.others.of} gave the correct rating`;
  find("[data-why]", card).textContent = gold.explanation;
  stage.replaceChildren(card);
  card.focus({ preventScroll: true });
}

function goOnAfterExplanation() {
  explaining = null;
  advance();
}

function pass(verb, reason) {
  if (!shown) return;
  if (shown.isLost) return say(NOT_YOURS);
  const { article } = shown;
  if (verb === "skip") {
    drafts.drop(article.dataset.item);
    lease.letGo(article);
    const entry = {
      uuid: crypto.randomUUID(),
      url: lease.address(article, "skip/"),
      body: { fence: Number(article.dataset.fence), reason },
    };
    advance();
    outbox.put(entry);
    say("Skipped. Another rater gets this item.");
  } else {
    const uuid = crypto.randomUUID();
    const several = article.dataset.members.includes(",");
    // Of several: the one in focus.
    const which = several && shown.form.inFocus() ? { rollout: Number(shown.form.inFocus()) } : {};
    const body = {
      client_uuid: uuid,
      ...fenced(article),
      form: "flag",
      reason,
      ...which,
      seconds: Math.round(lease.msSpent()) / 1000,
      first_key_ms: shown.firstKey,
      changes: shown.changes,
    };
    take({ uuid, url: lease.address(article, "flag/"), body }, `flagged, ${reason}`);
  }
}

async function undo() {
  const last = session.last();
  if (!last) return say("Nothing to undo.");
  if (session.stageOf(last.uuid) && outbox.retract(last.uuid)) return bringBack(last, null);
  if (outbox.isOnItsWay(last.uuid))
    return outbox.hasFailed
      ? say("The rating is being sent. Undo it when the server responds.")
      : setTimeout(undo, 50);
  let answer;
  try {
    answer = await post("/rate/undo/", { client_uuid: last.uuid, new_uuid: crypto.randomUUID() });
  } catch {
    return say("The server is not responding, so the rating can’t be undone now.");
  }
  if (answer.status === 401) return signedOut();
  if (answer.ok) return bringBack(last, (await itemsOf(answer))[0]);
  session.forget(last.uuid);
  return say((await answer.json()).detail ?? "The rating couldn’t be undone.");
}

// The item is on the stage again: as it was left here, or as the server has it.
function bringBack(last, item) {
  const state = session.stageOf(last.uuid);
  session.undid(last.uuid);
  if (state && item)
    Object.assign(state.article.dataset, {
      slot: item.article.dataset.slot,
      fence: item.article.dataset.fence,
      version: item.article.dataset.version,
      lease: item.article.dataset.lease,
    });
  stepBack();
  const back = state ?? item;
  lease.hold(back.article);
  put(back, state);
  say(`Undone: ${last.words}.`);
}

function stepBack() {
  if (!shown) return;
  if (shown.changes) saveDraft();
  shown.spent = lease.msSpent();
  if (shown.isLost) trouble("");
  else ahead.unshift(shown);
  shown = null;
}

/* what the server says */

function onResult(event) {
  showOutbox();
  showWaiting();
  if (event.kind === "signed-out") signedOut();
  else if (event.kind === "answered") answered(event.entry, event.status, event.body);
}

function answered(entry, status, body) {
  if (status >= 200 && status < 300) {
    if (body.gold && explaining === entry.uuid) explain(entry, body.gold);
    else if (body.gold) say(session.told(body.gold, status === 201), true);
    else if (body.is_late)
      say("Saved, but too late for training: the group was already closed.", true);
  } else if (status === 422) refused(entry, body.fields ?? {});
  else {
    const text = wordsOf(entry);
    unmake(entry);
    if (explaining === entry.uuid) goOnAfterExplanation();
    trouble(
      `${body.detail ?? "A rating couldn’t be saved."} ${body.next ?? ""}`,
      ...(text ? [drafts.keptText(text)] : []),
      button("Dismiss", () => trouble("")),
    );
  }
  fill();
}

function unmake(entry) {
  const state = session.stageOf(entry.uuid);
  session.undid(entry.uuid);
  return state;
}

// The answer cannot be taken as it is: it comes back with the words beside what is wrong.
function refused(entry, fields) {
  const state = unmake(entry);
  if (!state) {
    const text = wordsOf(entry);
    return trouble(
      `A rating was not saved: ${Object.entries(fields)
        .map(([name, words]) => `${name} ${words}`)
        .join("; ")}.`,
      ...(text ? [drafts.keptText(text)] : []),
      button("Dismiss", () => trouble("")),
    );
  }
  stepBack();
  lease.hold(state.article);
  put(state, state);
  saveDraft();
  wrong(state.article, fields);
  return say("The rating was not saved. Fix it and submit it again.");
}

function signedOut() {
  if (shown) saveDraft();
  const link = Object.assign(document.createElement("a"), {
    className: "link",
    textContent: "Log in",
    href: `${desk.dataset.login}?next=${encodeURIComponent(location.pathname + location.search)}`,
  });
  trouble(
    "You are signed out. Your browser keeps your ratings and sends them after you log in. ",
    link,
  );
}

function lost(article, problem) {
  if (problem === null) return signedOut();
  const place = ahead.findIndex((item) => item.article === article);
  if (place >= 0) {
    ahead.splice(place, 1);
    remember();
  } else if (shown?.article === article) {
    saveDraft();
    shown.isLost = true;
    find("[data-deck]").hidden = true;
    trouble(
      `${problem.detail} Your input is kept here. `,
      button("Show next item", () => {
        trouble("");
        advance();
      }),
    );
  }
  return fill();
}

/* beside the decision */

function ask(verb) {
  if (!shown) return;
  if (shown.isLost) return say(NOT_YOURS);
  if (verb === "skip" && "norming" in shown.article.dataset)
    return say("Everybody rates the norming items, so you can’t skip one.");
  const dialog = find(`[data-reasons=${verb}]`);
  find("[data-own-words]", dialog).value = "";
  dialog.showModal();
}

function reasoned(dialog, reason) {
  const words = reason ?? find("[data-own-words]", dialog).value.trim();
  if (dialog.dataset.reasons === "flag" && !words) return find("[data-own-words]", dialog).focus();
  dialog.close();
  return pass(dialog.dataset.reasons, words);
}

for (const dialog of desk.querySelectorAll("[data-reasons]")) {
  dialog.addEventListener("click", (event) => {
    const chosen = event.target.closest("[data-reason]");
    if (chosen) reasoned(dialog, chosen.dataset.reason);
    else if (event.target.closest("[data-send-reason]")) reasoned(dialog);
  });
  find("[data-own-words]", dialog).addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    if (!event.repeat) reasoned(dialog);
  });
  onDialogKey(dialog, (key) => {
    const reason = find(`[data-digit="${CSS.escape(key)}"]`, dialog);
    reason?.click();
    return reason !== null;
  });
  dialog.addEventListener("close", () => shown?.article.focus({ preventScroll: true }));
}

async function guidelines() {
  const panel = find("[data-guide]");
  const run = shown?.article.dataset.run ?? desk.dataset.run;
  const opens = panel.hidden || (run && panel.dataset.run !== run);
  try {
    if (opens && run) await (await BESIDE()).fillGuidelines(panel, run);
  } catch {
    return say("The guidelines can’t be loaded now.");
  }
  panel.hidden = !opens;
  desk.classList.toggle("guided", opens);
  find(".deck [data-act=guidelines]").setAttribute("aria-expanded", String(opens));
}

function critique() {
  if (!shown) return;
  find("[data-critique-box]", shown.article).hidden = false;
  find("[data-critique]", shown.article).focus();
}

async function openBeside(state, rollout, text) {
  const beside = await BESIDE();
  if (state !== shown) return;
  if (!beside.openRewrite(state.article, find("[data-rewrite-panel]"), rollout, text, keepRewrite))
    say("Only replies with one turn can be rewritten.");
}

function keepRewrite(rollout, text, before) {
  const { article } = shown;
  if (tooLong(article, "", { text })) return false;
  if (!text.trim() || text === before) {
    say("Change the text first, or discard the rewrite.");
    return false;
  }
  const uuid = crypto.randomUUID();
  outbox.put({
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
  say("Rewrite saved as a demonstration. You can still rate the reply.");
  return true;
}

function edit() {
  if (shown?.isLost) return say(NOT_YOURS);
  if (!shown || shown.form.act("edit")) return;
  openBeside(shown, shown.form.inFocus() ?? shown.article.dataset.members.split(",")[0]);
}

/* keys, pointer, touch */

const MOVES = ["next", "previous"]; // a key held down goes on with these alone
const ACTS = {
  submit,
  undo,
  critique,
  edit,
  guidelines,
  skip: () => ask("skip"),
  flag: () => ask("flag"),
};

// True when the key meant something here.
function press(key, event) {
  const action = (shown && keys[shown.article.dataset.form]?.[key]) ?? keys[""][key];
  if (event.repeat && (action || /^[0-9]$/.test(key)) && !MOVES.includes(action)) return true;
  if (key === "Escape" && !find("[data-guide]").hidden) return (guidelines(), true);
  if (action === "submit" && find("[data-go-on]", stage)) return (goOnAfterExplanation(), true);
  if (action in ACTS) {
    ACTS[action]();
    return true;
  }
  if (!shown) return false;
  if (action) return shown.form.act(action);
  if (/^[0-9]$/.test(key)) return shown.form.digit(key) && (goOn(), true);
  return key.startsWith("Arrow") && shown.form.arrow(key);
}

// Keys in a text on the stage.
function inText(event) {
  if (event.defaultPrevented || event.isComposing) return;
  if (event.key === "Escape") {
    event.preventDefault();
    shown?.article.focus({ preventScroll: true });
  } else if (
    event.key === "Enter" &&
    (event.ctrlKey || event.metaKey) &&
    !event.altKey &&
    !event.shiftKey &&
    !event.repeat
  ) {
    event.preventDefault();
    const beside = event.target.closest("[data-beside]");
    if (beside) find("[data-keep-rewrite]", beside).click();
    else submit();
  }
}

// One key is enough, for those who asked for that.
function goOn() {
  if (
    shown?.form.isOneKey &&
    find("[data-at-once]").checked &&
    !find("[data-critique]", shown.article).value
  )
    submit();
}

function noteFirstKey() {
  if (shown && shown.firstKey === null) shown.firstKey = Math.round(lease.msSpent());
}

onPageKey(
  (key, event) => {
    noteFirstKey();
    return press(key, event);
  },
  { repeats: true },
);
stage.addEventListener("keydown", (event) => {
  noteFirstKey();
  if (isText(event.target)) inText(event);
});

desk.addEventListener("click", (event) => {
  const act = event.target.closest("[data-act]")?.dataset.act;
  if (act in ACTS) ACTS[act]();
  if (event.target.closest("[data-go-on]")) goOnAfterExplanation();
  const slots = event.target.closest("[data-take-again]")?.dataset.takeAgain;
  if (slots) {
    again = { again: slots };
    stage.replaceChildren();
    fill();
  }
});

for (const kind of ["input", "change"])
  stage.addEventListener(kind, (event) => {
    if (!shown) return;
    if (kind === "change" || isText(event.target)) saveDraft();
    if (kind === "change") shown.changes += 1;
    if (event.target.name === "critique") wrong(shown.article, {});
  });
stage.addEventListener("submit", (event) => event.preventDefault());

stage.addEventListener("pointerdown", noteFirstKey);

function swiped(side) {
  if (!shown) return;
  if (shown.form.swipe) shown.form.swipe(side);
  if (shown.form.swipe || side === "right") submit();
  else ask("skip");
}

/* start */

if (window.matchMedia("(any-pointer: coarse)").matches)
  (await import("./touch.js")).listen(stage, find("[data-swipes]"), swiped);
lease.start(lost);
outbox.open();
showOutbox();
fill();
