// A corrected reply. The changes are shown word by word.
import { renderDiff } from "/static/js/rate/text_diff.js";

export function createForm(article) {
  const textarea = article.querySelector("[data-rewrite]");
  const container = article.querySelector("[data-difference]");
  const original = article.querySelector("[data-raw]")?.value ?? "";
  const showDiff = () => renderDiff(container, original, textarea.value);
  textarea.addEventListener("input", showDiff);
  showDiff();
  return {
    onDigit: () => false,
    onArrow: () => false,
    onAction: (name) => name === "edit" && (textarea.focus(), true),
    getAnswer: () => (textarea.value.trim() ? { text: textarea.value } : null),
    missingMessage: () => "Write the corrected reply first.",
    summarize: (answer) => (answer.text === original ? "unchanged" : "rewritten"),
    focusedRollout: () => article.dataset.members,
    focus: () => textarea.focus({ preventScroll: true }),
    saveState: () => textarea.value,
    restoreState(state) {
      textarea.value = state;
      showDiff();
    },
  };
}
