// Mark spans of the reply word by word, with a note on each. Offsets are code points, as on the
// server.
export function createForm(article, page) {
  const text = article.querySelector("[data-spantext]");
  const list = article.querySelector("[data-spans]");
  const words = [...text.querySelectorAll("[data-start]")];
  const startOf = (word) => Number(word.dataset.start);
  const endOf = (word) => startOf(word) + [...word.textContent].length;
  let position = 0;
  let spanStart = null; // index of the word at which a span was started
  let spans = JSON.parse(list.dataset.spans || "[]");

  const spanAt = (word) =>
    spans.find((span) => startOf(word) < span.end && endOf(word) > span.start);

  function showMarks() {
    const [first, last] =
      spanStart === null
        ? [-1, -1]
        : [Math.min(spanStart, position), Math.max(spanStart, position)];
    words.forEach((word, n) => {
      word.classList.toggle("marked", Boolean(spanAt(word)));
      word.classList.toggle("marking", n >= first && n <= last);
      word.classList.toggle("here", n === position && document.activeElement === text);
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

  function createRow(span) {
    const item = document.createElement("li");
    const quote = document.createElement("q");
    quote.textContent = excerpt(span); // model output: never as markup
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
    remove.addEventListener("click", () => removeSpan(span));
    item.append(quote, note, remove);
    return item;
  }

  function render() {
    spans.sort((a, b) => a.start - b.start || a.end - b.end);
    list.replaceChildren(...spans.map(createRow));
    showMarks();
  }

  function onChange(message) {
    render();
    article.dispatchEvent(new Event("change", { bubbles: true }));
    page.showMessage(message);
    return true;
  }

  function addSpan(first, last) {
    const span = {
      start: startOf(words[Math.min(first, last)]),
      end: endOf(words[Math.max(first, last)]),
      note: "",
    };
    spanStart = null;
    if (spans.some((other) => other.start === span.start && other.end === span.end))
      return showMarks();
    spans.push(span);
    onChange("Span marked. Add a reason, then press Enter.");
    list.children[spans.indexOf(span)].querySelector("input").focus();
    return true;
  }

  function removeSpan(span) {
    spans = spans.filter((other) => other !== span);
    text.focus();
    return onChange("Removed.");
  }

  function moveBy(delta) {
    position = Math.min(words.length - 1, Math.max(0, position + delta));
    text.focus({ preventScroll: true });
    showMarks();
    words[position]?.scrollIntoView({ block: "nearest" });
    return true;
  }

  function mark() {
    text.focus({ preventScroll: true });
    if (!words.length) return true;
    if (spanStart !== null) return addSpan(spanStart, position);
    spanStart = position;
    showMarks();
    page.showMessage("Span started. Go to its last word and press the key again.");
    return true;
  }

  function addSelection() {
    const selection = window.getSelection();
    if (
      !selection ||
      selection.isCollapsed ||
      !text.contains(selection.anchorNode) ||
      !text.contains(selection.focusNode)
    )
      return;
    const range = selection.getRangeAt(0);
    const touchedWords = words
      .map((word, n) => (range.intersectsNode(word) ? n : -1))
      .filter((n) => n >= 0);
    const overlapping = touchedWords.filter((n) => overlaps(range, words[n]));
    selection.removeAllRanges();
    if (overlapping.length) addSpan(overlapping[0], overlapping.at(-1));
  }

  // Whether the range contains characters of the word. intersectsNode is also true for a range that
  // only touches the word's edge.
  function overlaps(range, word) {
    const wordRange = document.createRange();
    wordRange.selectNodeContents(word);
    return (
      range.compareBoundaryPoints(Range.END_TO_START, wordRange) < 0 &&
      range.compareBoundaryPoints(Range.START_TO_END, wordRange) > 0
    );
  }

  text.addEventListener("pointerup", () => setTimeout(addSelection));
  text.addEventListener("focus", showMarks);
  text.addEventListener("blur", showMarks);
  text.addEventListener("click", (event) => {
    const word = words.indexOf(event.target.closest("[data-start]"));
    if (word < 0) return;
    position = word;
    showMarks();
  });
  render();

  return {
    onDigit: () => false,
    onArrow: (key) =>
      ((key === "ArrowRight" || key === "ArrowDown") && moveBy(1)) ||
      ((key === "ArrowLeft" || key === "ArrowUp") && moveBy(-1)),
    onAction: (name) =>
      ({
        next: () => moveBy(1),
        previous: () => moveBy(-1),
        mark,
        remove: () =>
          spanAt(words[position])
            ? removeSpan(spanAt(words[position]))
            : (page.showMessage("There is no span at this word."), true),
      })[name]?.() ?? false,
    getAnswer: () =>
      spans.length ? { spans: spans.map(({ start, end, note }) => ({ start, end, note })) } : null,
    missingMessage: () => "Mark at least one span, or skip the item.",
    summarize: () => `${spans.length} ${spans.length === 1 ? "span" : "spans"}`,
    focusedRollout: () => article.dataset.members,
    focus: () => text.focus({ preventScroll: true }),
    saveState: () => spans,
    restoreState(state) {
      spans = state;
      render();
    },
  };
}
