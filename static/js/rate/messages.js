// Messages of the rating page: the status line, the error box, and errors beside fields.
const MESSAGE_MS = 6000;
const page = document.querySelector("[data-desk]");
let timer = 0;

export const find = (selector, root = page) => root.querySelector(selector);

// Show a message for a few seconds, with the undo button if `canUndo`.
export function showMessage(message, canUndo = false) {
  find("[data-said]").textContent = message;
  find("[data-act=undo]").hidden = !canUndo;
  clearTimeout(timer);
  timer = setTimeout(() => {
    find("[data-said]").textContent = "";
    find("[data-act=undo]").hidden = true;
  }, MESSAGE_MS);
}

// Show an error until the next call; "" hides it.
export function showError(message, ...nodes) {
  const box = find("[data-trouble]");
  box.replaceChildren(message, ...nodes);
  box.hidden = !message;
}

export function createButton(label, onClick) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", textContent: label });
  button.addEventListener("click", onClick);
  return button;
}

export function createDismissButton() {
  return createButton("Dismiss", () => showError(""));
}

// Show errors beside the fields of an item, and hide those shown before.
export function showFieldErrors(article, errors) {
  for (const element of article.querySelectorAll("[data-wrong]")) element.hidden = true;
  for (const box of article.querySelectorAll("[aria-invalid]")) box.removeAttribute("aria-invalid");
  for (const [name, message] of Object.entries(errors)) {
    const element =
      find(`[data-wrong="${CSS.escape(name.split(".")[0])}"]`, article) ??
      find('[data-wrong=""]', article);
    element.textContent =
      element.dataset.wrong === name
        ? `${message[0].toUpperCase()}${message.slice(1)}.`
        : `${name}: ${message}`;
    element.hidden = false;
    find(`textarea[name="${CSS.escape(name)}"]`, article)?.setAttribute("aria-invalid", "true");
  }
}
