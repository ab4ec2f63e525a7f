// What differs between two texts, word by word: of a reply and its correction, and of the two
// replies of a pair.
// Of the comparison's table; beyond it the changed middle is shown as one piece.
const MOST_CELLS = 4_000_000;
const UNTOUCHED = "math, svg, [data-letter]"; // elements that take no marks inside
const KEPT = `rate:${document.body.dataset.user}:difference`;

function pieces(text) {
  return text.match(/\s+|[^\s]+/g) ?? [];
}

// [kind, pieces][] with the kinds "same", "out" and "in", from one list to the other, by the
// longest common sequence.
function aligned(a, b) {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (
    tail < a.length - head &&
    tail < b.length - head &&
    a[a.length - 1 - tail] === b[b.length - 1 - tail]
  )
    tail += 1;
  const middle = compare(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  const parts = [["same", a.slice(0, head)], ...middle, ["same", tail ? a.slice(-tail) : []]];
  return parts.filter(([, words]) => words.length);
}

// [{ kind: "same" | "out" | "in", text }] from one text to the other.
export function difference(before, after) {
  return aligned(pieces(before), pieces(after)).map(([kind, words]) => ({
    kind,
    text: words.join(""),
  }));
}

function compare(a, b) {
  if (!a.length || !b.length || a.length * b.length > MOST_CELLS)
    return [
      ["out", a],
      ["in", b],
    ];
  const width = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1)
    for (let j = b.length - 1; j >= 0; j -= 1)
      longest[i * width + j] =
        a[i] === b[j]
          ? longest[(i + 1) * width + j + 1] + 1
          : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
  const parts = [];
  const add = (kind, word) =>
    parts.at(-1)?.[0] === kind ? parts.at(-1)[1].push(word) : parts.push([kind, [word]]);
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      add("same", a[i]);
      i += 1;
      j += 1;
    } else if (
      j >= b.length ||
      (i < a.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1])
    )
      add("out", a[i++]);
    else add("in", b[j++]);
  }
  return parts;
}

export function draw(place, before, after) {
  place.replaceChildren(
    ...difference(before, after).map(({ kind, text }) => {
      const piece = document.createElement({ same: "span", out: "del", in: "ins" }[kind]);
      piece.textContent = text; // hostile text: never as markup
      return piece;
    }),
  );
}

// The same beside another form: a panel under the reply, sent by itself. `keep(rollout, text)`
// takes it.
export function openBeside(article, panel, rollout, keep) {
  const before = article.querySelector(`[data-raw="${rollout}"]`)?.value;
  if (before === undefined) return false;
  const box = panel.querySelector("[data-rewrite]");
  const place = panel.querySelector("[data-difference]");
  const label = panel.querySelector("label");
  box.id = label.htmlFor = `beside-${rollout}`;
  box.value = before;
  const show = () => draw(place, before, box.value);
  const close = () => {
    panel.remove();
    article.focus({ preventScroll: true });
  };
  box.addEventListener("input", show);
  panel
    .querySelector("[data-keep-rewrite]")
    .addEventListener("click", () => keep(rollout, box.value, before) && close());
  panel.querySelector("[data-drop-rewrite]").addEventListener("click", close);
  const row =
    article.querySelector(`[data-row][data-rollout="${rollout}"]`) ??
    article.querySelector(".reply");
  if (row.localName === "li") row.append(panel);
  else row.after(panel);
  show();
  box.focus();
  return true;
}

/* the two replies of a pair */

// The words of one side as they are drawn: { node, start, end, text }.
function wordsOf(side) {
  const words = [];
  for (const prose of side.querySelectorAll(".prose")) {
    const walker = document.createTreeWalker(prose, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node.parentElement.closest(UNTOUCHED)) continue;
      for (const match of node.data.matchAll(/\S+/g))
        words.push({
          node,
          start: match.index,
          end: match.index + match[0].length,
          text: match[0],
        });
    }
  }
  return words;
}

// The same words of one node in a row become one mark.
function runsOf(words, differs) {
  const runs = [];
  words.forEach((word, n) => {
    if (!differs[n]) return;
    const last = runs.at(-1);
    if (last && last.node === word.node && differs[n - 1]) last.end = word.end;
    else runs.push({ node: word.node, start: word.start, end: word.end });
  });
  return runs;
}

function wrap(runs, element) {
  for (const { node, start, end } of runs.reverse()) {
    // From the end: what comes before in the same node keeps its place.
    const range = new Range();
    range.setStart(node, start);
    range.setEnd(node, end);
    const mark = document.createElement(element);
    mark.className = "differs";
    range.surroundContents(mark);
  }
}

function mark(sides) {
  const words = sides.map(wordsOf);
  const differs = words.map((side) => Array.from(side, () => false));
  const at = [0, 0];
  for (const [kind, same] of aligned(...words.map((side) => side.map((word) => word.text)))) {
    for (const [n, own] of [
      [0, "out"],
      [1, "in"],
    ]) {
      if (kind === own) differs[n].fill(true, at[n], at[n] + same.length);
      if (kind === own || kind === "same") at[n] += same.length;
    }
  }
  wrap(runsOf(words[0], differs[0]), "del");
  wrap(runsOf(words[1], differs[1]), "ins");
  return differs.map((side) => side.filter(Boolean).length);
}

function unmark(sides) {
  for (const side of sides)
    for (const marked of side.querySelectorAll(".differs")) {
      const parent = marked.parentNode;
      marked.replaceWith(...marked.childNodes);
      parent.normalize();
    }
}

// The switch of a pair: a button with aria-pressed, and a line that says how much differs. On for
// the next pairs, too, until it is turned off. Returns what turns it.
export function begin(article) {
  const sides = [...article.querySelectorAll("[data-side]")];
  const button = article.querySelector("[data-differences]");
  const line = article.querySelector("[data-differences-said]");
  const show = (on) => {
    unmark(sides);
    button.setAttribute("aria-pressed", String(on));
    line.textContent = "";
    if (!on) return;
    const [a, b] = mark(sides);
    line.textContent =
      a + b
        ? `${a} ${a === 1 ? "word" : "words"} only in A, ${b} only in B`
        : "The words are the same";
  };
  const turn = () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    localStorage.setItem(KEPT, Number(on));
    show(on);
    return true;
  };
  button.addEventListener("click", turn);
  if (localStorage.getItem(KEPT) === "1") show(true);
  return turn;
}
