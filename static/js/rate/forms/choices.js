// Forms made of radio buttons: thumbs, stars, pairs, best and worst, scales, turns; and the critique, which has only words.
// A key printed on a button gives its value, in the row in focus where there are rows.
const WORDS = ["both bad", "A much better", "A better", "A a little better", "equally good", "B a little better", "B better", "B much better"];

export function begin(article, desk) {
  const rows = [...article.querySelectorAll("[data-row]")];
  const inputs = [...article.querySelectorAll("input[type=radio]")];
  const hasOwnKeys = (row) => row?.querySelector("[data-key]") !== null;
  const steps = rows.length > 1 || article.dataset.form === "turns";
  let place = 0;

  function pick(input, on = true) {
    if (!input) return false;
    input.checked = on;
    input.dispatchEvent(new Event("change", { bubbles: true }));
    return true;
  }

  function go(to, focus = true) {
    if (!steps) return false;
    place = Math.min(rows.length - 1, Math.max(0, to));
    rows.forEach((row, n) => row.classList.toggle("sel", n === place));
    if (focus) {
      if (rows[place].tabIndex === 0) rows[place].focus({ preventScroll: true });
      rows[place].scrollIntoView({ block: "nearest" });
    }
    return true;
  }

  const chosen = (name) => inputs.find((input) => input.name === name && input.checked)?.value;
  const named = (name, value) => inputs.find((input) => input.name === name && input.value === String(value));

  // Again on the same side: more clearly, and round.
  function lean(side) {
    const now = Number(chosen("preference"));
    const more = now * side > 0 && now * side < 3 ? Math.abs(now) + 1 : 1;
    return pick(named("preference", side * more));
  }

  function end(which, row) {
    const other = which === "best" ? "worst" : "best";
    const rollout = row.dataset.rollout;
    if (chosen(other) === rollout) pick(named(other, rollout), false);
    return pick(named(which, rollout), chosen(which) !== rollout);
  }

  function endByDigit(digit) {
    const row = rows.find((one) => one.dataset.digit === digit);
    if (!row) return false;
    go(rows.indexOf(row));
    if (chosen("best") === row.dataset.rollout || !chosen("best")) return end("best", row);
    return end("worst", row);
  }

  function clear(test) {
    for (const input of inputs) if (input.checked && test(input)) input.checked = false;
  }

  article.addEventListener("change", (event) => {
    const { name } = event.target;
    if (!event.target.checked) return;
    if (name === "first_error") clear((input) => input.name.startsWith("turn:"));
    else if (name?.startsWith("turn:")) clear((input) => input.name === "first_error");
    if (name === "best" || name === "worst") {
      const other = named(name === "best" ? "worst" : "best", event.target.value);
      if (other) other.checked = false;
    }
  });
  article.addEventListener("focusin", (event) => {
    const row = rows.indexOf(event.target.closest("[data-row]"));
    if (row >= 0) go(row, false);
  });
  if (steps) go(0, false);

  const acts = {
    next: () => go(place + 1),
    previous: () => go(place - 1),
    first: () => lean(-1),
    second: () => lean(1),
    tie: () => pick(named("preference", 0)),
    both_bad: () => pick(named("preference", "both_bad")),
    best: () => end("best", rows[place]),
    worst: () => end("worst", rows[place]),
    first_error: () => pick(named("first_error", rows[place]?.dataset.turn)),
    no_error: () => pick(named("first_error", "none")),
  };

  function digit(key) {
    if (article.dataset.form === "best_worst") return endByDigit(key);
    const scope = steps && hasOwnKeys(rows[place]) ? rows[place] : article;
    const input = scope.querySelector(`input[data-key="${key}"]`);
    if (!input) return false;
    pick(input);
    if (scope !== article) go(place + 1);
    return true;
  }

  function arrow(key) {
    if (article.dataset.form !== "pairwise") return (key === "ArrowDown" && go(place + 1)) || (key === "ArrowUp" && go(place - 1));
    const now = Number(chosen("preference") ?? 0) || 0;
    if (key === "ArrowDown") return acts.tie();
    if (key === "ArrowLeft") return pick(named("preference", Math.max(-3, now - 1)));
    return key === "ArrowRight" && pick(named("preference", Math.min(3, now + 1)));
  }

  const marks = () => Object.fromEntries(inputs.filter((input) => input.checked && input.name.startsWith("turn:")).map((input) => [input.name.slice(5), Number(input.value)]));
  const scales = () => Object.fromEntries(inputs.filter((input) => input.checked && input.name.startsWith("scale:")).map((input) => [input.name.slice(6), Number(input.value)]));
  const unjudged = () => rows.filter((row) => row.dataset.scale && !row.querySelector("input:checked")).map((row) => row.dataset.scale);

  const answers = {
    thumbs: () => chosen("up") && { up: chosen("up") === "yes" },
    stars: () => chosen("stars") && { stars: Number(chosen("stars")) },
    pairwise: () => chosen("preference") && (chosen("preference") === "both_bad" ? { both_bad: true } : { preference: Number(chosen("preference")) }),
    best_worst: () => chosen("best") && chosen("worst") && { best: Number(chosen("best")), worst: Number(chosen("worst")) },
    rubric: () => !unjudged().length && { scales: scales() },
    turns: () => (chosen("first_error") ? { first_error: chosen("first_error") === "none" ? null : Number(chosen("first_error")) } : Object.keys(marks()).length > 0 && { marks: marks() }),
    critique: () => desk.critique().trim() && {},
  };
  const missing = {
    thumbs: () => "Say first whether it is good: 1 bad, 2 good.",
    stars: () => "Give 1 to 5 stars first.",
    pairwise: () => "Say first which is better, or that they tie.",
    best_worst: () => (chosen("best") ? "Which is the worst?" : "Which is the best?"),
    rubric: () => `Still to judge: ${unjudged().join(", ")}.`,
    turns: () => "Mark at least one turn, the first error, or that no turn is wrong.",
    critique: () => "Write a few words first.",
  };
  const said = {
    thumbs: (answer) => (answer.up ? "good" : "bad"),
    stars: (answer) => `${answer.stars} ${answer.stars === 1 ? "star" : "stars"}`,
    pairwise: (answer) => (answer.both_bad ? WORDS[0] : WORDS[answer.preference + 4]),
    best_worst: (answer) => {
      const letter = (rollout) => String.fromCharCode(65 + rows.findIndex((row) => Number(row.dataset.rollout) === rollout));
      return `best ${letter(answer.best)}, worst ${letter(answer.worst)}`;
    },
    rubric: (answer) => Object.entries(answer.scales).map(([name, value]) => `${name} ${value}`).join(", "),
    turns: (answer) => ("marks" in answer ? `${Object.keys(answer.marks).length} turns marked` : answer.first_error === null ? "no turn is wrong" : `first error in reply ${answer.first_error + 1}`),
    critique: () => "critique",
  };
  const form = article.dataset.form;
  return {
    digit,
    arrow,
    act: (name) => acts[name]?.() ?? false,
    answer: () => answers[form]() || null,
    missing: () => missing[form](),
    said: (answer) => said[form](answer),
    inFocus: () => rows[place]?.dataset.rollout,
    isOneKey: ["thumbs", "stars", "pairwise"].includes(form),
    swipe: form === "thumbs" ? (side) => pick(named("up", side === "right" ? "yes" : "no")) : null,
    state: () => inputs.filter((input) => input.checked).map((input) => [input.name, input.value]),
    restore: (state, isTurned) => state.forEach(([name, value]) => {
      const input = named(name, isTurned && name === "preference" && value !== "both_bad" ? -value : value);
      if (input) input.checked = true;
    }),
  };
}
