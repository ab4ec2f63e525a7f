// The rating desk: digits give stars, Enter goes on to the next group.
import { cardKey, select } from "./cards.js";
import { isTyping, isUnderDialog } from "./keys.js";
import "./rate.js";

const ANSWER = "[data-answer]";

function press(selector) {
  document.querySelector(selector)?.click();
}

document.addEventListener("keydown", (event) => {
  if (cardKey(event, ANSWER) || isTyping(event) || isUnderDialog()) return;
  if (event.key === "Enter" && !event.target.closest("button, a")) press("[data-next]");
  else if (event.key === "s") press("[data-skip]");
});

document.addEventListener("focusin", (event) => {
  const answer = event.target.closest(ANSWER);
  if (answer && !answer.classList.contains("sel")) select(ANSWER, answer);
});

document.addEventListener("htmx:after:swap", () => {
  countDown(0);
  select(ANSWER, document.querySelector(ANSWER));
});

// Counts down to when the group goes on without people, on the server's figure.
function countDown(seconds) {
  for (const clock of document.querySelectorAll("[data-countdown]")) {
    const left = Math.max(0, Number(clock.dataset.countdown) - seconds);
    clock.dataset.countdown = left;
    clock.textContent = left >= 60 ? `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}` : left ? `${left} s` : "a moment";
  }
}

countDown(0);
setInterval(() => countDown(1), 1000);
select(ANSWER, document.querySelector(ANSWER));
