// A chat with a policy version: Enter sends, replies can be copied, and the newest text is
// scrolled into view.
const form = document.querySelector(".composer");
const text = form?.querySelector("#text");

text?.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!event.repeat && text.value.trim()) form.requestSubmit();
});

function showCopyButtons() {
  for (const button of document.querySelectorAll("[data-copies][hidden]"))
    button.hidden = !navigator.clipboard;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copies]");
  if (!button) return;
  const reply = button.closest(".say").querySelector(".words").innerText.trim();
  button.textContent = await navigator.clipboard.writeText(reply).then(
    () => "Copied",
    () => "Your browser blocked copying",
  );
});

const thread = document.getElementById("now");
thread?.addEventListener("htmx:after:swap", () => {
  showCopyButtons();
  const lastTurn = document.getElementById("last");
  if (lastTurn && lastTurn.getBoundingClientRect().bottom > window.innerHeight)
    lastTurn.scrollIntoView({ block: "end" });
});
showCopyButtons();
