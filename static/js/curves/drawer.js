// The drawer with what happened at one step: opened from a chart, walked with arrow keys, and its
// own address while it is open.
import { onDialogKey } from "../keys.js";

export class StepDrawer {
  // `dialog`: with data-steps, the address of all steps, and [data-body], which takes the fragment
  // of a step.
  constructor(dialog) {
    this.dialog = dialog;
    this.body = dialog.querySelector("[data-body]");
    this.isInHistory = false;
    dialog.addEventListener("close", () => this.isInHistory && history.back());
    dialog.addEventListener("click", (event) => this.#click(event));
    onDialogKey(dialog, (key) => this.#key(key));
  }

  // Show a step. The address line then has the address of the step's page.
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

  // Take a step back in the history that leaves the drawer; says whether it did.
  left() {
    if (!this.isInHistory) return false;
    this.isInHistory = false;
    this.dialog.close();
    return true;
  }

  async #load(address, isNew) {
    const mine = (this.loading = {});
    const rel = document.activeElement?.getAttribute("rel");
    this.body.setAttribute("aria-busy", "true");
    const html = await fragment(`${address}drawer/`);
    if (mine !== this.loading) return; // another step was asked for meanwhile
    this.body.removeAttribute("aria-busy");
    if (html === null) this.body.replaceChildren(...failed(address));
    else
      htmx.swap({
        text: html,
        target: this.body,
        swap: "innerHTML",
        sourceElement: this.body,
        request: {},
      });
    this.dialog.scrollTop = 0;
    const next = !isNew && rel ? this.body.querySelector(`[rel="${rel}"]`) : null;
    (next ?? this.body.querySelector("#step-title"))?.focus();
  }

  #click(event) {
    if (event.target === this.dialog) return this.dialog.close(); // its backdrop
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

// The HTML at an address, or null: the server could not be reached, or refused.
async function fragment(address) {
  try {
    const answer = await fetch(address);
    return answer.ok && !answer.redirected ? await answer.text() : null;
  } catch {
    return null;
  }
}

function failed(address) {
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
