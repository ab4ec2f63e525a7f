// Beside the decision: the run's guidelines, and a reply written as it should be. Fetched when it
// is first asked for.
import * as rewriting from "./difference.js";

// The run's guidelines into the panel, unless they are there already. Throws when the server does
// not give them.
export async function fillGuidelines(panel, run) {
  if (panel.dataset.run === run) return;
  const answer = await fetch(`/rate/guidelines/${run}/`, { redirect: "error" });
  if (!answer.ok) throw new Error(answer.status);
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  panel.replaceChildren(
    ...[...parsed.body.childNodes].map((node) => document.importNode(node, true)),
  );
  panel.dataset.run = run;
}

// A box under the reply, with `text` in it if given; `keep(rollout, text, before)` takes it. False:
// it cannot be rewritten.
export function openRewrite(article, template, rollout, text, keep) {
  const there = article.querySelector("[data-beside] [data-rewrite]");
  if (there) return (there.focus(), true);
  const panel = document.importNode(template.content.firstElementChild, true);
  if (!rewriting.openBeside(article, panel, rollout, keep)) return false;
  const box = panel.querySelector("[data-rewrite]");
  if (text !== undefined) {
    box.value = text;
    box.dispatchEvent(new Event("input"));
  }
  return true;
}
