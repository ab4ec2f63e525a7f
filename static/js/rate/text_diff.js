// Word-by-word differences between two texts.
// Above this size of the comparison's table, the whole changed middle is shown as replaced.
const MAX_CELLS = 4_000_000;

function splitWords(text) {
  return text.match(/\s+|[^\s]+/g) ?? [];
}

// Return [kind, words][] with the kinds "same", "out" and "in" that turn one list into the other,
// by the longest common subsequence.
export function diffWords(a, b) {
  let prefix = 0;
  while (prefix < a.length && prefix < b.length && a[prefix] === b[prefix]) prefix += 1;
  let suffix = 0;
  while (
    suffix < a.length - prefix &&
    suffix < b.length - prefix &&
    a[a.length - 1 - suffix] === b[b.length - 1 - suffix]
  )
    suffix += 1;
  const middle = diffMiddle(a.slice(prefix, a.length - suffix), b.slice(prefix, b.length - suffix));
  const parts = [["same", a.slice(0, prefix)], ...middle, ["same", suffix ? a.slice(-suffix) : []]];
  return parts.filter(([, words]) => words.length);
}

// Return [{ kind: "same" | "out" | "in", text }] that turns one text into the other.
function diffTexts(before, after) {
  return diffWords(splitWords(before), splitWords(after)).map(([kind, words]) => ({
    kind,
    text: words.join(""),
  }));
}

// Compare two lists that differ at both ends.
function diffMiddle(a, b) {
  if (!a.length || !b.length || a.length * b.length > MAX_CELLS)
    return [
      ["out", a],
      ["in", b],
    ];
  const lengths = subsequenceLengths(a, b);
  const width = b.length + 1;
  const parts = [];
  const add = (kind, word) => {
    if (parts.at(-1)?.[0] === kind) parts.at(-1)[1].push(word);
    else parts.push([kind, [word]]);
  };
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      add("same", a[i++]);
      j += 1;
    } else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) add("out", a[i++]);
    else add("in", b[j++]);
  }
  for (const word of a.slice(i)) add("out", word);
  for (const word of b.slice(j)) add("in", word);
  return parts;
}

// Return a table with the length of the longest common subsequence of a.slice(i) and b.slice(j) at
// i * (b.length + 1) + j.
function subsequenceLengths(a, b) {
  const width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1)
    for (let j = b.length - 1; j >= 0; j -= 1)
      lengths[i * width + j] =
        a[i] === b[j]
          ? lengths[(i + 1) * width + j + 1] + 1
          : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
  return lengths;
}

// Show the differences in an element, as <del> and <ins>.
export function renderDiff(container, before, after) {
  container.replaceChildren(
    ...diffTexts(before, after).map(({ kind, text }) => {
      const element = document.createElement({ same: "span", out: "del", in: "ins" }[kind]);
      element.textContent = text; // model output: never as markup
      return element;
    }),
  );
}
