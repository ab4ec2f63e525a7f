// Runs before the first paint, so a remembered theme never flashes. Classic script on purpose.
(() => {
  const remembered = localStorage.getItem("theme");
  if (remembered === "light" || remembered === "dark")
    document.documentElement.dataset.theme = remembered;
})();
