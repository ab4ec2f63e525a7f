// Search fields above long lists of names. They hide the names that do not match; chosen ones stay.
function filterNames(input) {
  const words = input.value.trim().toLowerCase();
  for (const label of document.getElementById(input.dataset.filters).children)
    label.hidden =
      !label.textContent.toLowerCase().includes(words) && !label.querySelector("input").checked;
}

for (const input of document.querySelectorAll("[data-filters]")) {
  input.hidden = false;
  input.addEventListener("input", () => filterNames(input));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") event.preventDefault(); // it would send the form
  });
}
