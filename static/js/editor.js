// The box in which somebody edits the policy's words or types its turn. What is typed outlives a
// reload and a refusal.
import { act } from "./acts.js";

const PROLONG_MS = 60_000; // the policy waits at most two minutes for each asking
const LOOK_MS = 100;
const KEPT_MS = 24 * 3600 * 1000;
const WORDS = {
  edit: {
    label: "Text so far. Edit it; the policy continues from the end of your text.",
    hint: "Text that you change is marked as yours and excluded from the loss.",
  },
  seat: {
    label: "Write the whole turn. It ends where your text ends.",
    hint: "Your turn is saved as a demonstration and excluded from the loss.",
  },
};

export class Editor {
  constructor(form, { acts, rollout, tell, isBeingWritten }) {
    Object.assign(this, {
      form,
      acts,
      rollout,
      tell,
      isBeingWritten,
      kind: null,
      isDirty: false,
      isSending: false,
    });
    this.box = form.querySelector("textarea");
    this.key = `live-draft-${rollout}`;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    form.querySelector("[data-cancel]").addEventListener("click", () => this.cancel());
    this.box.addEventListener("input", () => this.typed());
    this.box.addEventListener("keydown", (event) => this.pressed(event));
  }

  pressed(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.send();
    else if (event.key === "Escape" && !event.isComposing) this.cancel();
    else return;
    event.preventDefault();
  }

  get isOpen() {
    return this.kind !== null;
  }

  // Freezes the turn's text as it reads now; the stream goes on behind until the policy has heard
  // that it should wait.
  open(kind, turn, text) {
    Object.assign(this, { kind, turn, uuid: crypto.randomUUID(), isDirty: false });
    this.show(kind === "edit" ? text : "");
    this.hold();
  }

  show(text) {
    this.form.hidden = false;
    this.form.querySelector("[data-editor-words]").textContent = WORDS[this.kind].label;
    this.form.querySelector("[data-editor-hint]").textContent = WORDS[this.kind].hint;
    this.box.value = text;
    this.wrong("");
    this.box.focus();
    this.box.setSelectionRange(text.length, text.length);
    this.form.scrollIntoView({ block: "nearest" });
  }

  async hold() {
    clearInterval(this.prolonging);
    this.prolonging = setInterval(
      () => this.isOpen && this.isBeingWritten() && act(this.acts, "hold"),
      PROLONG_MS,
    );
    const answer = await act(this.acts, "hold");
    if (answer.state !== "done" && this.isOpen && this.isBeingWritten())
      this.wrong(`The policy is not paused: ${answer.reason}`);
  }

  // The policy waits now: words that came between the key and the halt belong to what is edited,
  // unless one has typed already.
  held(text, turn) {
    if (!this.isOpen || this.isDirty || this.turn !== turn || this.kind !== "edit") return;
    this.box.value = text;
    this.box.setSelectionRange(text.length, text.length);
  }

  typed() {
    if (!this.isDirty) this.isDirty = true;
    this.uuid = crypto.randomUUID(); // other words are another act
    this.keep();
  }

  keep() {
    const { kind, turn, uuid } = this;
    localStorage.setItem(
      this.key,
      JSON.stringify({ kind, turn, uuid, text: this.box.value, at: Date.now() }),
    );
  }

  // After a reload: what was typed is there again, and the policy is asked to wait.
  resume() {
    const draft = kept(this.key);
    if (!draft || !(draft.kind in WORDS)) return;
    Object.assign(this, { kind: draft.kind, turn: draft.turn, uuid: draft.uuid, isDirty: true });
    this.show(draft.text);
    this.hold();
  }

  openWhenHeard(kind, isThere, open) {
    const looking = setInterval(() => {
      if (!isThere()) return;
      clearInterval(looking);
      if (!this.isOpen && this.isBeingWritten()) open(kind);
    }, LOOK_MS);
  }

  async send() {
    if (this.isSending || !this.isOpen) return;
    this.isSending = true;
    this.keep();
    this.tell(this.kind === "edit" ? "Sending your edit…" : "Sending your turn…");
    const kind = this.kind;
    const answer = await act(this.acts, kind, {
      text: this.box.value,
      turn: this.turn,
      uuid: this.uuid,
    });
    this.isSending = false;
    if (answer.state === "done") {
      this.close();
      this.tell(
        kind === "edit" ? "Edited. The policy continues from your text." : "Turn saved",
        "good",
      );
    } else {
      this.tell("");
      this.wrong(answer.reason);
      // Sent again, it is a new request.
      if (answer.state === "refused") this.uuid = crypto.randomUUID();
    }
  }

  cancel() {
    this.close();
    if (this.isBeingWritten()) act(this.acts, "free");
    this.tell("");
  }

  close() {
    clearInterval(this.prolonging);
    localStorage.removeItem(this.key);
    this.kind = null;
    this.form.hidden = true;
    document.querySelector("[data-turns]").focus({ preventScroll: true });
  }

  ended() {
    clearInterval(this.prolonging);
    if (this.isOpen && !this.isSending)
      this.wrong("The reply has ended in the meantime. You can still copy your text.");
  }

  wrong(words) {
    const line = this.form.querySelector("[data-editor-wrong]");
    line.hidden = !words;
    line.textContent = words;
  }
}

function kept(key) {
  try {
    const draft = JSON.parse(localStorage.getItem(key));
    return draft && Date.now() - draft.at < KEPT_MS ? draft : null;
  } catch {
    return null;
  }
}
