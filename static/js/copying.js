// Buttons that copy: secrets, ids and addresses that are marked, commands, and code in replies.
const REFUSED = "Your browser does not allow copying. Select the text instead.";

async function copy(button, text, state) {
  try {
    await navigator.clipboard.writeText(text);
    state.textContent = "Copied";
    setTimeout(() => (state.textContent = ""), 4000);
  } catch {
    state.textContent = REFUSED;
  }
}

// A line of its own below the block, with the button and what became of the copy.
function addLine(block, label) {
  const line = document.createElement("p");
  const button = Object.assign(document.createElement("button"), {
    type: "button",
    textContent: "Copy",
  });
  const state = Object.assign(document.createElement("span"), { className: "quiet" });
  if (label) button.setAttribute("aria-label", label);
  state.setAttribute("role", "status");
  line.className = "copy-line";
  button.addEventListener("click", () => copy(button, block.textContent.trim(), state));
  line.append(button, " ", state);
  block.after(line);
}

// The button stands in the page already, hidden where no script runs.
function wake(button) {
  const state = Object.assign(document.createElement("span"), { className: "quiet" });
  state.setAttribute("role", "status");
  button.hidden = false;
  button.after(" ", state);
  button.addEventListener("click", () => copy(button, button.dataset.copy, state));
}

const LABELS = {
  "[data-secret]": "",
  "pre.command": "Copy the command",
  ".prose pre": "Copy the code",
};

export function offerCopies() {
  for (const [blocks, label] of Object.entries(LABELS)) {
    for (const block of document.querySelectorAll(blocks)) {
      const isRated = block.closest("[data-desk]"); // raters have the keys and the place for rating
      if (!isRated && !block.nextElementSibling?.matches(".copy-line")) addLine(block, label);
    }
  }
  document.querySelectorAll("[data-copy][hidden]").forEach(wake);
}
