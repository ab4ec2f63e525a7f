// The page of a step: arrow keys go to the step before and after it.
import { onPageKey } from "./keys.js";

onPageKey((key) => {
  const rel = { ArrowLeft: "prev", ArrowRight: "next" }[key];
  const link = rel && document.querySelector(`.step-head [rel="${rel}"]`);
  link?.click();
  return Boolean(link);
});
