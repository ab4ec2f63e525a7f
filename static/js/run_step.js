// The page of one step: the left and right arrow keys open the previous and the next step.
import { onPageKey } from "./keys.js";

onPageKey((key) => {
  const rel = { ArrowLeft: "prev", ArrowRight: "next" }[key];
  const link = rel && document.querySelector(`.step-head [rel="${rel}"]`);
  link?.click();
  return Boolean(link);
});
