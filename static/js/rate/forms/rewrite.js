// The reply as it should be, with what changed shown word by word while one types.
const MOST_CELLS = 4_000_000; // of the comparison's table; beyond it the changed middle is shown as one piece

function pieces(text) {
  return text.match(/\s+|[^\s]+/g) ?? [];
}

// [{ kind: "same" | "out" | "in", text }] from one text to the other, by the longest common sequence of words.
export function difference(before, after) {
  const [a, b] = [pieces(before), pieces(after)];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const middle = compare(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  const parts = [["same", a.slice(0, head)], ...middle, ["same", tail ? a.slice(-tail) : []]];
  return parts.filter(([, words]) => words.length).map(([kind, words]) => ({ kind, text: words.join("") }));
}

function compare(a, b) {
  if (!a.length || !b.length || a.length * b.length > MOST_CELLS) return [["out", a], ["in", b]];
  const width = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1)
    for (let j = b.length - 1; j >= 0; j -= 1)
      longest[i * width + j] = a[i] === b[j] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
  const parts = [];
  const add = (kind, word) => (parts.at(-1)?.[0] === kind ? parts.at(-1)[1].push(word) : parts.push([kind, [word]]));
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      add("same", a[i]);
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) add("out", a[i++]);
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

export function begin(article) {
  const box = article.querySelector("[data-rewrite]");
  const place = article.querySelector("[data-difference]");
  const before = article.querySelector("[data-raw]")?.value ?? "";
  const show = () => draw(place, before, box.value);
  box.addEventListener("input", show);
  show();
  return {
    digit: () => false,
    arrow: () => false,
    act: (name) => name === "edit" && (box.focus(), true),
    answer: () => (box.value.trim() ? { text: box.value } : null),
    missing: () => "Write the reply as it should be first.",
    said: (answer) => (answer.text === before ? "kept as it was" : "rewritten"),
    inFocus: () => article.dataset.members,
    start: () => box.focus({ preventScroll: true }),
    state: () => box.value,
    restore(state) {
      box.value = state;
      show();
    },
  };
}

// The same beside another form: a panel under the reply, sent by itself. `keep(rollout, text)` takes it.
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
  panel.querySelector("[data-keep-rewrite]").addEventListener("click", () => keep(rollout, box.value, before) && close());
  panel.querySelector("[data-drop-rewrite]").addEventListener("click", close);
  const row = article.querySelector(`[data-row][data-rollout="${rollout}"]`) ?? article.querySelector(".reply");
  if (row.localName === "li") row.append(panel);
  else row.after(panel);
  show();
  box.focus();
  return true;
}
