// A conversation with a version: Enter sends, answers are copied, and the newest words stay in
// sight while they come.
const form = document.querySelector(".composer");
const text = form?.querySelector("#text");

text?.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (text.value.trim()) form.requestSubmit();
});

function offerCopies() {
  for (const button of document.querySelectorAll("[data-copies][hidden]"))
    button.hidden = !navigator.clipboard;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copies]");
  if (!button) return;
  await navigator.clipboard.writeText(
    button.closest(".say").querySelector(".words").innerText.trim(),
  );
  button.textContent = "Copied";
});

const now = document.getElementById("now");
now?.addEventListener("htmx:after:swap", () => {
  offerCopies();
  const last = document.getElementById("last");
  if (last && last.getBoundingClientRect().bottom > window.innerHeight)
    last.scrollIntoView({ block: "end" });
});
offerCopies();
