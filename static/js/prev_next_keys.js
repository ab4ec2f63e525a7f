// The left and right arrow keys open the previous and the next page, if the page links to them.
import { onPageKey } from "./keys.js";

const LINKS = { ArrowLeft: "a[rel=prev]", ArrowRight: "a[rel=next]" };

onPageKey((key) => {
  const link = key in LINKS && document.querySelector(`main ${LINKS[key]}`);
  if (!link) return false;
  window.location.assign(link.href);
  return true;
});
