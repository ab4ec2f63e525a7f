// Adds copy buttons to secrets, ids, addresses, commands, and code in replies.
const BLOCKED_MESSAGE = "Your browser does not allow copying. Select the text instead.";

async function copy(button, text, status) {
  try {
    await navigator.clipboard.writeText(text);
    status.textContent = "Copied";
    setTimeout(() => (status.textContent = ""), 4000);
  } catch {
    status.textContent = BLOCKED_MESSAGE;
  }
}

// Add a line below the block, with a copy button and the result of copying.
function addCopyLine(block, label) {
  const line = document.createElement("p");
  const button = Object.assign(document.createElement("button"), {
    type: "button",
    textContent: "Copy",
  });
  const status = Object.assign(document.createElement("span"), { className: "quiet" });
  if (label) button.setAttribute("aria-label", label);
  status.setAttribute("role", "status");
  line.className = "copy-line";
  button.addEventListener("click", () => copy(button, block.textContent.trim(), status));
  line.append(button, " ", status);
  block.after(line);
}

// Activate a button that the page contains, hidden for browsers without scripts.
function activate(button) {
  const status = Object.assign(document.createElement("span"), { className: "quiet" });
  status.setAttribute("role", "status");
  button.hidden = false;
  button.after(" ", status);
  button.addEventListener("click", () => copy(button, button.dataset.copy, status));
}

const LABELS = {
  "[data-secret]": "",
  "pre.command": "Copy the command",
  ".prose pre": "Copy the code",
};

export function addCopyButtons() {
  for (const [selector, label] of Object.entries(LABELS)) {
    for (const block of document.querySelectorAll(selector)) {
      const isRated = block.closest("[data-rating-page]"); // raters need the keys and the space for rating
      if (!isRated && !block.nextElementSibling?.matches(".copy-line")) addCopyLine(block, label);
    }
  }
  document.querySelectorAll("[data-copy][hidden]").forEach(activate);
}
