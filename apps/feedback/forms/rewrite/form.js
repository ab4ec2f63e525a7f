// The reply as it should be, with what changed shown word by word while one types.
import { draw } from "/static/js/rate/difference.js";

export function begin(article) {
  const box = article.querySelector("[data-rewrite]");
  const place = article.querySelector("[data-difference]");
  const before = article.querySelector("[data-raw]")?.value ?? "";
  const show = () => draw(place, before, box.value);
  box.addEventListener("input", show);
  show();
  return {
    digit: () => false,
    arrow: () => false,
    act: (name) => name === "edit" && (box.focus(), true),
    answer: () => (box.value.trim() ? { text: box.value } : null),
    missing: () => "Write the corrected reply first.",
    describe: (answer) => (answer.text === before ? "unchanged" : "rewritten"),
    inFocus: () => article.dataset.members,
    start: () => box.focus({ preventScroll: true }),
    state: () => box.value,
    restore(state) {
      box.value = state;
      show();
    },
  };
}
