// Marks the words that differ between the two replies of a pair.
import { diffWords } from "./text_diff.js";

const UNMARKED = "math, svg, [data-letter]"; // elements in which nothing is marked
const STORAGE_KEY = `rate:${document.body.dataset.user}:difference`;

// Return the words of one side with their text nodes: { node, start, end, text }.
function wordsOf(side) {
  const words = [];
  for (const prose of side.querySelectorAll(".prose")) {
    const walker = document.createTreeWalker(prose, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node.parentElement.closest(UNMARKED)) continue;
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

// Merge neighboring differing words of one text node into one range.
function mergeWords(words, differs) {
  const ranges = [];
  words.forEach((word, n) => {
    if (!differs[n]) return;
    const previous = ranges.at(-1);
    if (previous && previous.node === word.node && differs[n - 1]) previous.end = word.end;
    else ranges.push({ node: word.node, start: word.start, end: word.end });
  });
  return ranges;
}

function wrapRanges(ranges, element) {
  for (const { node, start, end } of ranges.reverse()) {
    // From the end, so that earlier offsets in the node stay valid.
    const range = new Range();
    range.setStart(node, start);
    range.setEnd(node, end);
    const marker = document.createElement(element);
    marker.className = "differs";
    range.surroundContents(marker);
  }
}

// Mark the differing words of both sides. Returns how many there are on each.
function markDifferences(sides) {
  const words = sides.map(wordsOf);
  const differs = words.map((side) => Array.from(side, () => false));
  const positions = [0, 0];
  for (const [kind, part] of diffWords(...words.map((side) => side.map((word) => word.text)))) {
    for (const [n, sideKind] of [
      [0, "out"],
      [1, "in"],
    ]) {
      if (kind === sideKind) differs[n].fill(true, positions[n], positions[n] + part.length);
      if (kind === sideKind || kind === "same") positions[n] += part.length;
    }
  }
  wrapRanges(mergeWords(words[0], differs[0]), "del");
  wrapRanges(mergeWords(words[1], differs[1]), "ins");
  return differs.map((side) => side.filter(Boolean).length);
}

function removeMarks(sides) {
  for (const side of sides)
    for (const marker of side.querySelectorAll(".differs")) {
      const parent = marker.parentNode;
      marker.replaceWith(...marker.childNodes);
      parent.normalize();
    }
}

// Initialize the button that marks the differences between the two replies of a pair, and the line
// that counts them. The setting applies to the next pairs too. Returns a function that toggles it.
export function initPairDiff(article) {
  const sides = [...article.querySelectorAll("[data-side]")];
  const button = article.querySelector("[data-differences]");
  const summary = article.querySelector("[data-differences-summary]");
  const show = (isOn) => {
    removeMarks(sides);
    button.setAttribute("aria-pressed", String(isOn));
    summary.textContent = "";
    if (!isOn) return;
    const [a, b] = markDifferences(sides);
    summary.textContent =
      a + b
        ? `${a} ${a === 1 ? "word" : "words"} only in A, ${b} only in B`
        : "The words are the same";
  };
  const toggle = () => {
    const isOn = button.getAttribute("aria-pressed") !== "true";
    localStorage.setItem(STORAGE_KEY, Number(isOn));
    show(isOn);
    return true;
  };
  button.addEventListener("click", toggle);
  if (localStorage.getItem(STORAGE_KEY) === "1") show(true);
  return toggle;
}
