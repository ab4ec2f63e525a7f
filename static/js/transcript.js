// Renders a rollout's turns from streamed chunks. All text is inserted as text, never as markup.
const SHADE_COUNT = 10;

function shadeClass(logprobs) {
  const meanLogprob = logprobs.reduce((sum, value) => sum + (value ?? 0), 0) / logprobs.length;
  return `p${Math.min(SHADE_COUNT - 1, Math.floor(Math.exp(Math.min(0, meanLogprob)) * SHADE_COUNT))}`;
}

function createSpan(text, name = "") {
  const span = document.createElement("span");
  if (name) span.className = name;
  span.textContent = text;
  return span;
}

// Stands for text that the server no longer had when it was to be sent.
function createGap() {
  const gap = createSpan("[text missing here until the reply is complete] ", "gap");
  gap.setAttribute("role", "note");
  return gap;
}

// Keep the first `keep` characters (code points) of an element's text, and remove the rest.
function truncate(container, keep) {
  let left = keep;
  for (const span of [...container.childNodes]) {
    const characters = [...span.textContent];
    if (!left && characters.length) span.remove();
    else if (characters.length > left) span.textContent = characters.slice(0, left).join("");
    left = Math.max(0, left - characters.length);
  }
}

export class Transcript {
  // `createTurn(role)` returns a turn's element and the element of its text, `{ element, words }`.
  // With `byToken`, each token has a shade of its own; otherwise each chunk has one.
  constructor(root, { createTurn, byToken = false }) {
    Object.assign(this, { root, createTurn, byToken, turns: [], caret: createSpan("", "caret") });
    this.clear();
  }

  clear() {
    this.root.replaceChildren();
    this.turns = [];
    this.hasGaps = false;
    this.nextToken = 0;
    this.addTurn("assistant");
  }

  addTurn(role) {
    const turn = { role, hasGap: false, ...this.createTurn(role) };
    this.turns.push(turn);
    this.root.append(turn.element);
    return turn;
  }

  get lastTurn() {
    return this.turns[this.turns.length - 1];
  }

  // Return the text of a turn, without the marks of gaps.
  textOf(turn) {
    return [...(this.turns[turn]?.words.childNodes ?? [])]
      .filter((span) => span.className !== "gap")
      .map((span) => span.textContent)
      .join("");
  }

  // Mark that text is missing at the end of what is shown.
  addGap() {
    this.hasGaps = true;
    this.lastTurn.hasGap = true;
    this.lastTurn.words.append(createGap());
  }

  apply(chunk) {
    const handlers = {
      started: () => this.clear(),
      text: () => this.appendText(chunk),
      turn: () => this.appendUserTurn(chunk),
      edit: () => this.applyEdit(chunk),
      end: () => this.caret.remove(),
    };
    handlers[chunk.t]?.();
  }

  appendText(chunk) {
    if (chunk.o === 0 && this.nextToken > 0 && !chunk.e) this.clear();
    if (chunk.o < this.nextToken) return; // it is shown already
    if (chunk.o > this.nextToken) this.addGap();
    this.nextToken = chunk.o + chunk.n;
    for (const span of this.createSpans(chunk)) this.lastTurn.words.append(span);
    this.lastTurn.words.append(this.caret);
  }

  createSpans(chunk) {
    if (!chunk.lp?.length) return [createSpan(chunk.x)];
    if (!this.byToken || chunk.w?.length !== chunk.lp.length)
      return [createSpan(chunk.x, shadeClass(chunk.lp))];
    const characters = [...chunk.x];
    let at = 0;
    return chunk.w
      .map((width, n) =>
        createSpan(characters.slice(at, (at += width)).join(""), shadeClass([chunk.lp[n]])),
      )
      .filter((span) => span.textContent);
  }

  appendUserTurn(chunk) {
    if (chunk.o > this.nextToken) this.addGap();
    this.nextToken = chunk.o + chunk.n;
    this.addTurn("user").words.append(createSpan(chunk.x));
    this.addTurn("assistant").words.append(this.caret);
  }

  // The characters that an edit keeps can't be counted in a turn with a gap.
  replaceByGap() {
    this.lastTurn.words.replaceChildren();
    this.addGap();
  }

  applyEdit(chunk) {
    const isMissingText = chunk.o > this.nextToken;
    this.nextToken = chunk.o + chunk.n;
    for (const removed of this.turns.splice(chunk.turn + 1)) removed.element.remove();
    while (this.turns.length <= chunk.turn)
      this.addTurn(this.turns.length % 2 ? "user" : "assistant");
    this.caret.remove();
    if (isMissingText || this.lastTurn.hasGap) this.replaceByGap();
    else truncate(this.lastTurn.words, chunk.keep);
    const typed = createSpan(chunk.x, "human-text");
    if (chunk.by) typed.title = `Written by ${chunk.by}`;
    this.lastTurn.words.append(typed, this.caret);
  }
}
