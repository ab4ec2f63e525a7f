// The panel with a run's guidelines. It is loaded when it is opened for the first time.

// Fill the panel with a run's guidelines unless it has them already. Throws if they can't be
// loaded.
export async function fillGuidelines(panel, run) {
  if (panel.dataset.run === run) return;
  const response = await fetch(`/rate/guidelines/${run}/`, { redirect: "error" });
  if (!response.ok) throw new Error(response.status);
  const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
  panel.replaceChildren(
    ...[...parsed.body.childNodes].map((node) => document.importNode(node, true)),
  );
  panel.dataset.run = run;
}
