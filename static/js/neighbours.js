// The arrow keys open the page before and the one after, where the page links to them.
import { onPageKey } from "./keys.js";

const WAYS = { ArrowLeft: "a[rel=prev]", ArrowRight: "a[rel=next]" };

onPageKey((key) => {
  const link = key in WAYS && document.querySelector(`main ${WAYS[key]}`);
  if (!link) return false;
  window.location.assign(link.href);
  return true;
});
