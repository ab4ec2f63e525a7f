// Mark parts of the reply, word by word, with a note to each. Offsets are code points of the text,
// as the server counts.
export function begin(article, desk) {
  const text = article.querySelector("[data-spantext]");
  const list = article.querySelector("[data-spans]");
  const words = [...text.querySelectorAll("[data-s]")];
  const startOf = (word) => Number(word.dataset.s);
  const endOf = (word) => startOf(word) + [...word.textContent].length;
  let place = 0;
  let from = null; // the word at which a span was begun
  let spans = JSON.parse(list.dataset.spans || "[]");

  const inside = (word) =>
    spans.find((span) => startOf(word) < span.end && endOf(word) > span.start);

  function draw() {
    const [low, high] = from === null ? [-1, -1] : [Math.min(from, place), Math.max(from, place)];
    words.forEach((word, n) => {
      word.classList.toggle("marked", Boolean(inside(word)));
      word.classList.toggle("marking", n >= low && n <= high);
      word.classList.toggle("here", n === place && document.activeElement === text);
    });
  }

  function excerpt(span) {
    const inSpan = words
      .filter((word) => startOf(word) < span.end && endOf(word) > span.start)
      .map((word) => word.textContent);
    return inSpan.length > 8
      ? `${inSpan.slice(0, 4).join(" ")} … ${inSpan.slice(-3).join(" ")}`
      : inSpan.join(" ");
  }

  function row(span) {
    const line = document.createElement("li");
    const quote = document.createElement("q");
    quote.textContent = excerpt(span); // hostile text: never as markup
    quote.dir = "auto";
    const note = document.createElement("input");
    Object.assign(note, {
      type: "text",
      maxLength: 2000,
      value: span.note ?? "",
      placeholder: "Reason",
    });
    note.setAttribute("aria-label", `Note on ${quote.textContent}`);
    note.addEventListener("input", () => (span.note = note.value));
    note.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      text.focus();
    });
    const remove = document.createElement("button");
    Object.assign(remove, { type: "button", className: "plain", textContent: "Remove" });
    remove.addEventListener("click", () => drop(span));
    line.append(quote, note, remove);
    return line;
  }

  function show() {
    spans.sort((a, b) => a.start - b.start || a.end - b.end);
    list.replaceChildren(...spans.map(row));
    draw();
  }

  function changed(words) {
    show();
    article.dispatchEvent(new Event("change", { bubbles: true }));
    desk.say(words);
    return true;
  }

  function add(first, last) {
    const span = {
      start: startOf(words[Math.min(first, last)]),
      end: endOf(words[Math.max(first, last)]),
      note: "",
    };
    from = null;
    if (spans.some((one) => one.start === span.start && one.end === span.end)) return draw();
    spans.push(span);
    changed("Span marked. Add a reason, then press Enter.");
    list.children[spans.indexOf(span)].querySelector("input").focus();
    return true;
  }

  function drop(span) {
    spans = spans.filter((one) => one !== span);
    text.focus();
    return changed("Removed.");
  }

  function step(delta) {
    place = Math.min(words.length - 1, Math.max(0, place + delta));
    text.focus({ preventScroll: true });
    draw();
    words[place]?.scrollIntoView({ block: "nearest" });
    return true;
  }

  function mark() {
    text.focus({ preventScroll: true });
    if (!words.length) return true;
    if (from !== null) return add(from, place);
    from = place;
    draw();
    desk.say("Span started. Go to its last word and press the key again.");
    return true;
  }

  function selected() {
    const chosen = window.getSelection();
    if (
      !chosen ||
      chosen.isCollapsed ||
      !text.contains(chosen.anchorNode) ||
      !text.contains(chosen.focusNode)
    )
      return;
    const range = chosen.getRangeAt(0);
    const touched = words
      .map((word, n) => (range.intersectsNode(word) ? n : -1))
      .filter((n) => n >= 0);
    const full = touched.filter((n) => touches(range, words[n]));
    chosen.removeAllRanges();
    if (full.length) add(full[0], full.at(-1));
  }

  // intersectsNode counts a range that only meets the word's edge.
  function touches(range, word) {
    const whole = document.createRange();
    whole.selectNodeContents(word);
    return (
      range.compareBoundaryPoints(Range.END_TO_START, whole) < 0 &&
      range.compareBoundaryPoints(Range.START_TO_END, whole) > 0
    );
  }

  text.addEventListener("pointerup", () => setTimeout(selected));
  text.addEventListener("focus", draw);
  text.addEventListener("blur", draw);
  text.addEventListener("click", (event) => {
    const word = words.indexOf(event.target.closest("[data-s]"));
    if (word < 0) return;
    place = word;
    draw();
  });
  show();

  return {
    digit: () => false,
    arrow: (key) =>
      ((key === "ArrowRight" || key === "ArrowDown") && step(1)) ||
      ((key === "ArrowLeft" || key === "ArrowUp") && step(-1)),
    act: (name) =>
      ({
        next: () => step(1),
        previous: () => step(-1),
        mark,
        remove: () =>
          inside(words[place])
            ? drop(inside(words[place]))
            : (desk.say("There is no span at this word."), true),
      })[name]?.() ?? false,
    answer: () =>
      spans.length ? { spans: spans.map(({ start, end, note }) => ({ start, end, note })) } : null,
    missing: () => "Mark at least one span, or skip the item.",
    describe: () => `${spans.length} ${spans.length === 1 ? "span" : "spans"}`,
    inFocus: () => article.dataset.members,
    start: () => text.focus({ preventScroll: true }),
    state: () => spans,
    restore(state) {
      spans = state;
      show();
    },
  };
}
