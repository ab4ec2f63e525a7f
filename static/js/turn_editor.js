// The text field in which a person edits the policy's turn or writes it. The text survives a reload
// and a refused request, and the person can come back to it after closing the editor.
import { steer } from "./steering.js";
import { randomUuid, read, write } from "./outbox.js";

const HOLD_INTERVAL_MS = 60_000; // each hold request pauses the policy for at most two minutes
const CHECK_MS = 100;
const DRAFT_AGE_MS = 24 * 3600 * 1000;
const STORAGE_FULL =
  "Your browser’s storage is full, so your text can’t be kept. Copy or delete it, then close.";
const LABELS = {
  edit: {
    label: "Text so far. Edit it; the policy continues from the end of your text.",
    hint: "Text that you change is marked as yours and excluded from the loss.",
  },
  seat: {
    label: "Write the whole turn. It ends where your text ends.",
    hint: "Your turn is saved as a demonstration and excluded from the loss.",
  },
};

export class TurnEditor {
  constructor(form, { steeringUrl, rollout, showStatus, isSampling }) {
    Object.assign(this, {
      form,
      steeringUrl,
      rollout,
      showStatus,
      isSampling,
      kind: null,
      isDirty: false,
      isSending: false,
    });
    this.field = form.querySelector("textarea");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    form.querySelector("[data-cancel]").addEventListener("click", () => this.cancel());
    this.keptNotice = document.querySelector("[data-kept-text]");
    this.keptNotice
      .querySelector("[data-reopen]")
      .addEventListener("click", () => this.reopen(readDraft(this.keyOf(this.keptKind))));
    this.keptNotice
      .querySelector("[data-discard]")
      .addEventListener("click", () => this.discard(this.keptKind));
    this.field.addEventListener("input", () => this.onInput());
    this.field.addEventListener("keydown", (event) => this.onKey(event));
  }

  onKey(event) {
    if (event.isComposing) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.send();
    else if (event.key === "Escape") this.cancel();
    else return;
    event.preventDefault();
  }

  get isOpen() {
    return this.kind !== null;
  }

  keyOf(kind) {
    return `live-draft-${this.rollout}-${kind}`;
  }

  // Open the editor with the turn's current text, or with the text that was kept. The stream
  // continues until the policy has received the hold request.
  open(kind, turn, text) {
    const draft = readDraft(this.keyOf(kind));
    if (draft) return this.reopen(draft);
    Object.assign(this, { kind, turn, uuid: randomUuid(), isDirty: false });
    this.show(kind === "edit" ? text : "");
    this.hold();
  }

  show(text) {
    this.form.hidden = false;
    this.keptNotice.hidden = true;
    this.form.querySelector("[data-editor-label]").textContent = LABELS[this.kind].label;
    this.form.querySelector("[data-editor-hint]").textContent = LABELS[this.kind].hint;
    this.field.value = text;
    this.showError("");
    this.field.focus();
    this.field.setSelectionRange(text.length, text.length);
    this.form.scrollIntoView({ block: "nearest" });
  }

  async hold() {
    clearInterval(this.holdTimer);
    this.holdTimer = setInterval(
      () => this.isOpen && this.isSampling() && steer(this.steeringUrl, "hold"),
      HOLD_INTERVAL_MS,
    );
    const result = await steer(this.steeringUrl, "hold");
    if (result.state !== "done" && this.isOpen && this.isSampling())
      this.showError(`The policy is not paused: ${result.reason}`);
  }

  // The policy is paused now. Tokens that arrived between the key press and the pause belong to the
  // text, unless the person has typed already.
  onHeld(text, turn) {
    if (!this.isOpen || this.isDirty || this.turn !== turn || this.kind !== "edit") return;
    this.field.value = text;
    this.field.setSelectionRange(text.length, text.length);
  }

  onInput() {
    if (!this.isDirty) this.isDirty = true;
    this.uuid = randomUuid(); // a different text is a different request
    this.saveDraft();
  }

  // Save the text in the browser. Returns false if its storage is full: the text can still be sent.
  saveDraft(isOpen = true) {
    const { kind, turn, uuid } = this;
    const draft = { kind, turn, uuid, isOpen, text: this.field.value, at: Date.now() };
    return write(this.keyOf(kind), draft);
  }

  // Restore the draft after a reload, and pause the policy again. A draft whose editor was closed,
  // or whose reply has ended, is offered instead.
  resume() {
    const open = this.drafts().find((draft) => draft.isOpen);
    if (open && this.isSampling()) this.reopen(open);
    else this.offer();
  }

  drafts() {
    return Object.keys(LABELS)
      .map((kind) => readDraft(this.keyOf(kind)))
      .filter(Boolean);
  }

  reopen(draft) {
    if (!draft) return this.offer(); // sent or discarded in another tab
    Object.assign(this, { kind: draft.kind, turn: draft.turn, uuid: draft.uuid, isDirty: true });
    this.show(draft.text);
    this.saveDraft();
    if (this.isSampling()) this.hold();
    else this.onEnd();
  }

  // Offer a text that was kept, if there is one.
  offer() {
    const [draft] = this.drafts();
    this.keptKind = draft?.kind;
    this.keptNotice.hidden = !draft;
  }

  discard(kind) {
    localStorage.removeItem(this.keyOf(kind));
    this.offer();
  }

  // Open the editor as soon as the first chunk has arrived.
  openWhenReady(kind, isReady, open) {
    const timer = setInterval(() => {
      if (!isReady()) return;
      clearInterval(timer);
      if (!this.isOpen && this.isSampling()) open(kind);
    }, CHECK_MS);
  }

  async send() {
    if (this.isSending || !this.isOpen) return;
    this.isSending = true;
    this.saveDraft();
    this.showStatus(this.kind === "edit" ? "Sending your edit…" : "Sending your turn…");
    const kind = this.kind;
    const result = await steer(this.steeringUrl, kind, {
      text: this.field.value,
      turn: this.turn,
      uuid: this.uuid,
    });
    this.isSending = false;
    if (result.state === "done") {
      this.close(kind);
      this.showStatus(
        kind === "edit" ? "Edited. The policy continues from your text." : "Turn saved",
        "good",
      );
    } else {
      this.showStatus("");
      this.showError(result.reason);
      // Sending it again is a new request.
      if (result.state === "refused") this.uuid = randomUuid();
    }
  }

  // Close the editor and let the policy continue. Text that the person wrote is kept.
  cancel() {
    const { kind } = this;
    const isWritten = this.isDirty && this.field.value.trim() !== "";
    if (isWritten && !this.saveDraft(false)) return this.showError(STORAGE_FULL);
    this.hide();
    if (isWritten) this.offer();
    else this.discard(kind);
    if (this.isSampling()) steer(this.steeringUrl, "free");
    this.showStatus("");
  }

  // The text was sent; the person may have closed the editor meanwhile.
  close(kind) {
    if (this.kind === kind) this.hide();
    this.discard(kind);
  }

  hide() {
    clearInterval(this.holdTimer);
    this.kind = null;
    this.form.hidden = true;
    document.querySelector("[data-turns]").focus({ preventScroll: true });
  }

  // The reply ended while the editor was open.
  onEnd() {
    clearInterval(this.holdTimer);
    if (this.isOpen && !this.isSending)
      this.showError("The reply has ended in the meantime. You can still copy your text.");
  }

  showError(message) {
    const line = this.form.querySelector("[data-editor-error]");
    line.hidden = !message;
    line.textContent = message;
  }
}

// Return the saved draft, or null if there is none or it is too old.
function readDraft(key) {
  const draft = read(key);
  return draft && Date.now() - draft.at < DRAFT_AGE_MS ? draft : null;
}
