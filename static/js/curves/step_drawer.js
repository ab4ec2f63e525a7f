// A drawer with the details of one step. It opens from a chart; the arrow keys go to other steps,
// and each step has a URL of its own.
import { onDialogKey } from "../keys.js";
import { fetchPart } from "../site.js";

export class StepDrawer {
  // `dialog` has data-steps, the URL of all steps, and contains [data-body], which receives the
  // fragment of a step.
  constructor(dialog) {
    this.dialog = dialog;
    this.body = dialog.querySelector("[data-body]");
    this.isInHistory = false;
    dialog.addEventListener("close", () => this.isInHistory && history.back());
    dialog.addEventListener("click", (event) => this.#click(event));
    onDialogKey(dialog, (key) => this.#key(key));
  }

  // Show a step. The URL becomes that of the step's page.
  async open(step) {
    const address = `${this.dialog.dataset.steps}${step}/`;
    if (this.isInHistory) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
    this.isInHistory = true;
    const isNew = !this.dialog.open;
    if (isNew) {
      this.body.replaceChildren();
      this.dialog.showModal();
    }
    await this.#load(address, isNew);
  }

  // Close the drawer when the person navigates back. Returns whether it was open.
  closeOnBack() {
    if (!this.isInHistory) return false;
    this.isInHistory = false;
    this.dialog.close();
    return true;
  }

  async #load(address, isNew) {
    const request = (this.request = {});
    const rel = document.activeElement?.getAttribute("rel");
    this.body.setAttribute("aria-busy", "true");
    const html = await fetchFragment(`${address}drawer/`);
    if (request !== this.request) return; // another step was requested in the meantime
    this.body.removeAttribute("aria-busy");
    if (html === null) this.body.replaceChildren(...createError(address));
    else
      htmx.swap({
        text: html,
        target: this.body,
        swap: "innerHTML",
        sourceElement: this.body,
        request: {},
      });
    this.dialog.scrollTop = 0;
    const link = !isNew && rel ? this.body.querySelector(`[rel="${rel}"]`) : null;
    (link ?? this.body.querySelector("#step-title"))?.focus();
  }

  #click(event) {
    if (event.target === this.dialog) return this.dialog.close(); // the backdrop
    const link = event.target.closest("[data-step]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.open(link.dataset.step);
  }

  #key(key) {
    const rel = { ArrowLeft: "prev", ArrowRight: "next" }[key];
    if (!rel) return false;
    const link = this.body.querySelector(`[rel="${rel}"]`);
    if (link && !this.body.hasAttribute("aria-busy")) this.open(link.dataset.step);
    return true;
  }
}

// Fetch HTML. Returns null if the request failed.
async function fetchFragment(address) {
  const response = await fetchPart(address);
  return response ? response.text().catch(() => null) : null;
}

function createError(address) {
  const line = document.createElement("p");
  const link = document.createElement("a");
  line.className = "note warning";
  line.setAttribute("role", "alert");
  line.append("Couldn’t load this step. ", link);
  link.className = "link";
  link.href = address;
  link.textContent = "Open its page";
  return [line];
}
