// Applies the saved theme before the first paint, so that no other theme flashes. This is a classic
// script because modules run later.
(() => {
  const savedTheme = localStorage.getItem("theme");
  if (savedTheme === "light" || savedTheme === "dark")
    document.documentElement.dataset.theme = savedTheme;
})();
