// The dialogs that ask why a rater skips or flags an item.
import { onDialogKey } from "../keys.js";
import { find } from "./messages.js";

// `verb` is "skip" or "flag".
export function openReasonDialog(verb) {
  const dialog = find(`[data-reasons=${verb}]`);
  find("[data-own-words]", dialog).value = "";
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
  const field = find("[data-own-words]", dialog);
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
