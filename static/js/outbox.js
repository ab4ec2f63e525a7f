// Keeps ratings and votes in the browser until the server has saved them. Each entry has its own
// key, so that two tabs never overwrite each other. The client uuid makes an entry that two tabs
// send one rating.
import { csrfToken } from "./site.js";

const USER = document.body.dataset.user;
const TAB = sessionStorage.getItem("tab") ?? randomUuid(); // the same after a reload
const ORPHAN_AGE_MS = 20_000; // another tab's entry that is older is sent by this tab
const MAX_DELAY_MS = 30_000;
const RETRY_STATUSES = [408, 429, 500, 502, 503, 504];
sessionStorage.setItem("tab", TAB);

// Return a random UUID (version 4, RFC 9562). Browsers offer crypto.randomUUID only over HTTPS and on
// the machine itself, not over plain HTTP in a network.
export function randomUuid() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const digits = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

export function read(key) {
  try {
    return JSON.parse(localStorage.getItem(key));
  } catch {
    return null;
  }
}

// Returns false if the browser's storage is full.
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

export function post(url, body, options = {}) {
  const headers = { "Content-Type": "application/json", "X-CSRFToken": csrfToken() };
  return fetch(url, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
    redirect: "error",
    ...options,
  });
}

// Send an entry as form data, to an address that returns an HTML fragment.
function postForm(url, form) {
  const headers = { "X-CSRFToken": csrfToken(), "X-Requested-With": "fetch" };
  return fetch(url, {
    method: "POST",
    headers,
    body: new URLSearchParams(form),
    redirect: "error",
  });
}

export function unsentMessage(count) {
  return `${count} rating${count === 1 ? "" : "s"} not sent yet. Your browser sends ${count === 1 ? "it" : "them"} when the server responds.`;
}

// Return the text that the person wrote in an entry, so that it isn't lost with it.
export function writtenText({ body }) {
  return [
    body.critique,
    body.answer?.text,
    body.text,
    ...(body.answer?.spans ?? []).map((span) => span.note),
  ]
    .filter(Boolean)
    .join("\n\n");
}

// An entry has { uuid, url, body (JSON) or form, waits }, and whatever its page adds. Entries with
// `waits` are not sent yet. `onEvent` receives { kind: "kept" | "failed" | "signed-out" |
// "answered", entry, status, body }.
export class Outbox {
  constructor(name, onEvent) {
    Object.assign(this, {
      prefix: `rate:${USER}:${name}:`,
      onEvent,
      sending: null,
      failures: 0,
      timer: 0,
      isHalted: false,
    });
    this.inMemory = []; // entries that don't fit into the browser's storage
  }

  // Start sending.
  start() {
    window.addEventListener("online", () => {
      this.failures = 0;
      this.send();
    });
    setTimeout(() => this.send(), ORPHAN_AGE_MS);
    this.send();
  }

  keyOf(entry) {
    return `${this.prefix}${String(entry.at).padStart(15, "0")}:${entry.uuid}`;
  }

  waiting() {
    return keysOf(this.prefix).map(read).filter(Boolean);
  }

  allEntries() {
    return [...this.waiting(), ...this.inMemory];
  }

  add(entry) {
    const stored = { ...entry, tab: TAB, at: Date.now() };
    if (!write(this.keyOf(stored), stored)) this.inMemory.push(stored);
    this.onEvent({ kind: "kept" });
    this.send();
  }

  // Let an entry that waits be sent.
  release(entry) {
    entry.waits = false;
    if (!this.inMemory.includes(entry)) write(this.keyOf(entry), entry);
    this.send();
  }

  // Remove an entry that was not sent yet. Returns false if it is being sent, or was sent.
  retract(uuid) {
    const entry = this.allEntries().find((other) => other.uuid === uuid);
    if (!entry || this.sending === uuid) return false;
    this.remove(entry);
    return true;
  }

  isPending(uuid) {
    return this.allEntries().some((other) => other.uuid === uuid);
  }

  remove(entry) {
    localStorage.removeItem(this.keyOf(entry));
    this.inMemory = this.inMemory.filter((other) => other.uuid !== entry.uuid);
    this.onEvent({ kind: "kept" });
  }

  nextEntry() {
    return this.allEntries().find(
      (entry) => !entry.waits && (entry.tab === TAB || Date.now() - entry.at > ORPHAN_AGE_MS),
    );
  }

  async send() {
    if (this.sending || this.isHalted) return;
    clearTimeout(this.timer);
    for (let entry = this.nextEntry(); entry && !this.isHalted; entry = this.nextEntry()) {
      this.sending = entry.uuid;
      const isAnswered = await this.sendOne(entry);
      this.sending = null;
      if (!isAnswered) return;
    }
  }

  // Send one entry. Returns true if the server has answered for good.
  async sendOne(entry) {
    let response;
    try {
      response = await (entry.form ? postForm(entry.url, entry.form) : post(entry.url, entry.body));
    } catch {
      return this.retryLater();
    }
    if (RETRY_STATUSES.includes(response.status) || response.headers.has("X-Retry"))
      return this.retryLater();
    if (response.status === 401 || response.status === 403) {
      this.isHalted = true; // signed out: send nothing until the page is reloaded
      this.onEvent({ kind: "signed-out", entry });
      return false;
    }
    this.failures = 0;
    const body = await (entry.form ? response.text() : response.json()).catch(() => ({}));
    this.remove(entry);
    this.onEvent({ kind: "answered", entry, status: response.status, body });
    return true;
  }

  retryLater() {
    this.failures += 1;
    this.onEvent({ kind: "failed" });
    this.timer = setTimeout(
      () => this.send(),
      Math.min(MAX_DELAY_MS, 500 * 2 ** this.failures) * (0.5 + Math.random() / 2),
    );
    return false;
  }

  get hasFailed() {
    return this.failures > 0 || this.isHalted;
  }
}
