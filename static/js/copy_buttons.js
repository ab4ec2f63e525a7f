// Adds copy buttons to secrets, ids, addresses, commands, and code in replies.
const BLOCKED_MESSAGE = "Your browser does not allow copying. Select the text instead.";

async function copy(text, status) {
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
  line.append(button, " ", status);
  block.after(line);
}

// Show a button that the page contains, hidden for browsers without scripts. A refresh of its part
// hides it again and may remove the line with the result.
function activate(button) {
  button.hidden = false;
  if (statusOf(button)) return;
  const status = Object.assign(document.createElement("span"), { className: "quiet" });
  status.setAttribute("role", "status");
  button.after(" ", status);
}

function statusOf(button) {
  const next = button.nextElementSibling;
  return next?.getAttribute("role") === "status" ? next : null;
}

// One listener for all buttons: those that a refresh keeps are added again after it.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy], .copy-line button");
  if (!button || !statusOf(button)) return;
  const text = button.dataset.copy ?? button.parentElement.previousElementSibling.textContent;
  copy(text.trim(), statusOf(button));
});

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
