// Ratings and votes, kept in this browser until the server has them. One key for each entry: two
// tabs never overwrite each other, and the client uuid makes an entry that both send one rating.
const USER = document.body.dataset.user;
const TAB = sessionStorage.getItem("tab") ?? crypto.randomUUID(); // the same after a reload
const ORPHANED_MS = 20_000; // an entry of another tab that is older than this was left behind
const LONGEST_PAUSE_MS = 30_000;
const AGAIN = [408, 429, 500, 502, 503, 504];
sessionStorage.setItem("tab", TAB);

export function read(key) {
  try {
    return JSON.parse(localStorage.getItem(key));
  } catch {
    return null;
  }
}

// Returns false when this browser has no room left.
export function write(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

export function keysOf(prefix) {
  return Object.keys(localStorage)
    .filter((key) => key.startsWith(prefix))
    .sort();
}

// Another tab may have signed in again: its cookie is newer than what this page was given.
function token() {
  const name = document.querySelector("[data-csrf-cookie]")?.dataset.csrfCookie;
  const cookie = document.cookie.split("; ").find((part) => part.startsWith(`${name}=`));
  return cookie ? decodeURIComponent(cookie.slice(name.length + 1)) : document.body.dataset.csrf;
}

export function post(url, body, extra = {}) {
  const headers = { "Content-Type": "application/json", "X-CSRFToken": token() };
  return fetch(url, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
    redirect: "error",
    ...extra,
  });
}

// An entry's words as a form has them, for an address that answers with a fragment.
function postForm(url, form) {
  const headers = { "X-CSRFToken": token(), "X-Requested-With": "fetch" };
  return fetch(url, {
    method: "POST",
    headers,
    body: new URLSearchParams(form),
    redirect: "error",
  });
}

export function keptWords(count) {
  return `${count} rating${count === 1 ? "" : "s"} not sent yet. Your browser sends ${count === 1 ? "it" : "them"} when the server responds.`;
}

// What the person wrote in an entry.
export function wordsOf({ body }) {
  return [
    body.critique,
    body.answer?.text,
    body.text,
    ...(body.answer?.spans ?? []).map((span) => span.note),
  ]
    .filter(Boolean)
    .join("\n\n");
}

// An entry: { uuid, url, body (JSON) or form, waits: not to be sent yet }, and what its page wants
// to know of it. `hear` is told of { kind: "kept" | "failed" | "signed-out" | "answered", entry,
// status, body }.
export class Outbox {
  constructor(name, hear) {
    Object.assign(this, {
      prefix: `rate:${USER}:${name}:`,
      hear,
      sending: null,
      failures: 0,
      timer: 0,
      halted: false,
    });
    this.unkept = []; // what does not fit into this browser's store is sent from memory alone
  }

  // From now on what is kept is sent.
  open() {
    window.addEventListener("online", () => {
      this.failures = 0;
      this.send();
    });
    setTimeout(() => this.send(), ORPHANED_MS);
    this.send();
  }

  keyOf(entry) {
    return `${this.prefix}${String(entry.at).padStart(15, "0")}:${entry.uuid}`;
  }

  waiting() {
    return keysOf(this.prefix).map(read).filter(Boolean);
  }

  everything() {
    return [...this.waiting(), ...this.unkept];
  }

  put(entry) {
    const full = { ...entry, tab: TAB, at: Date.now() };
    if (!write(this.keyOf(full), full)) this.unkept.push(full);
    this.hear({ kind: "kept" });
    this.send();
  }

  // It waited for something that has come.
  release(entry) {
    entry.waits = false;
    if (!this.unkept.includes(entry)) write(this.keyOf(entry), entry);
    this.send();
  }

  // Take an entry back before it was sent. False: it is on its way, or gone.
  retract(uuid) {
    const entry = this.everything().find((one) => one.uuid === uuid);
    if (!entry || this.sending === uuid) return false;
    this.forget(entry);
    return true;
  }

  isOnItsWay(uuid) {
    return this.everything().some((one) => one.uuid === uuid);
  }

  forget(entry) {
    localStorage.removeItem(this.keyOf(entry));
    this.unkept = this.unkept.filter((one) => one.uuid !== entry.uuid);
    this.hear({ kind: "kept" });
  }

  next() {
    return this.everything().find(
      (entry) => !entry.waits && (entry.tab === TAB || Date.now() - entry.at > ORPHANED_MS),
    );
  }

  async send() {
    if (this.sending || this.halted) return;
    clearTimeout(this.timer);
    for (let entry = this.next(); entry && !this.halted; entry = this.next()) {
      this.sending = entry.uuid;
      const went = await this.sendOne(entry);
      this.sending = null;
      if (!went) return;
    }
  }

  // True when the server has spoken about it.
  async sendOne(entry) {
    let answer;
    try {
      answer = await (entry.form ? postForm(entry.url, entry.form) : post(entry.url, entry.body));
    } catch {
      return this.later();
    }
    if (AGAIN.includes(answer.status) || answer.headers.has("X-Retry")) return this.later();
    if (answer.status === 401 || answer.status === 403) {
      this.halted = true; // signed out: nothing goes until the page is loaded again
      this.hear({ kind: "signed-out", entry });
      return false;
    }
    this.failures = 0;
    const body = await (entry.form ? answer.text() : answer.json()).catch(() => ({}));
    this.forget(entry);
    this.hear({ kind: "answered", entry, status: answer.status, body });
    return true;
  }

  later() {
    this.failures += 1;
    this.hear({ kind: "failed" });
    this.timer = setTimeout(
      () => this.send(),
      Math.min(LONGEST_PAUSE_MS, 500 * 2 ** this.failures) * (0.5 + Math.random() / 2),
    );
    return false;
  }

  get hasFailed() {
    return this.failures > 0 || this.halted;
  }
}
