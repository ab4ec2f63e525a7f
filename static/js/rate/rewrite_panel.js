// A panel below a reply in which the rater corrects it, in addition to the rating. It is loaded
// when it is opened for the first time.
import { renderDiff } from "./text_diff.js";

// Open the panel, or focus it if it is open. `text` is the text of a restored draft;
// `save(rollout, text, original)` saves the rewrite and returns whether it did. Returns false if
// the reply can't be rewritten.
export function openRewrite(article, template, rollout, text, save) {
  const open = article.querySelector("[data-rewrite-box] [data-rewrite]");
  if (open) {
    open.focus();
    return true;
  }
  const original = article.querySelector(`[data-raw="${rollout}"]`)?.value;
  if (original === undefined) return false;
  const panel = document.importNode(template.content.firstElementChild, true);
  const textarea = panel.querySelector("[data-rewrite]");
  const showDiff = () =>
    renderDiff(panel.querySelector("[data-difference]"), original, textarea.value);
  textarea.id = panel.querySelector("label").htmlFor = `beside-${rollout}`;
  textarea.value = text ?? original;
  textarea.addEventListener("input", showDiff);
  bindButtons(article, panel, () => save(rollout, textarea.value, original));
  insertPanel(article, panel, rollout);
  showDiff();
  textarea.focus();
  return true;
}

function bindButtons(article, panel, save) {
  const close = () => {
    panel.remove();
    article.focus({ preventScroll: true });
  };
  panel.querySelector("[data-keep-rewrite]").addEventListener("click", () => save() && close());
  panel.querySelector("[data-drop-rewrite]").addEventListener("click", close);
}

function insertPanel(article, panel, rollout) {
  const row =
    article.querySelector(`[data-row][data-rollout="${rollout}"]`) ??
    article.querySelector(".reply");
  if (row.localName === "li") row.append(panel);
  else row.after(panel);
}
