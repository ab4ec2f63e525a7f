// A rollout's turns as they are said: chunks in, spans out. What anybody said is text, never
// markup.
const SHADES = 10;

function shade(logprobs) {
  const mean = logprobs.reduce((sum, value) => sum + (value ?? 0), 0) / logprobs.length;
  return `p${Math.min(SHADES - 1, Math.floor(Math.exp(Math.min(0, mean)) * SHADES))}`;
}

function spanOf(text, name = "") {
  const piece = document.createElement("span");
  if (name) piece.className = name;
  piece.textContent = text;
  return piece;
}

// The first `keep` characters (code points) of what a turn says; the rest is gone.
function cut(words, keep) {
  let left = keep;
  for (const piece of [...words.childNodes]) {
    const points = [...piece.textContent];
    if (!left && points.length) piece.remove();
    else if (points.length > left) piece.textContent = points.slice(0, left).join("");
    left = Math.max(0, left - points.length);
  }
}

export class Transcript {
  // `frame(role)` makes a turn's element and the place of its words; `byToken`: a shade for each
  // token, not for each chunk.
  constructor(place, { frame, byToken = false }) {
    Object.assign(this, { place, frame, byToken, turns: [], caret: spanOf("", "caret") });
    this.clear();
  }

  clear() {
    this.place.replaceChildren();
    this.turns = [];
    this.hasLostWords = false;
    this.next = 0;
    this.begin("assistant");
  }

  begin(role) {
    const turn = { role, ...this.frame(role) };
    this.turns.push(turn);
    this.place.append(turn.element);
    return turn;
  }

  get last() {
    return this.turns[this.turns.length - 1];
  }

  textOf(turn) {
    return this.turns[turn]?.words.textContent ?? "";
  }

  take(chunk) {
    const kinds = {
      started: () => this.clear(),
      text: () => this.say(chunk),
      turn: () => this.answer(chunk),
      edit: () => this.change(chunk),
      end: () => this.caret.remove(),
    };
    kinds[chunk.t]?.();
  }

  say(chunk) {
    if (chunk.o === 0 && this.next > 0 && !chunk.e) this.clear();
    if (chunk.o > this.next) this.hasLostWords = true;
    this.next = chunk.o + chunk.n;
    for (const piece of this.pieces(chunk)) this.last.words.append(piece);
    this.last.words.append(this.caret);
  }

  pieces(chunk) {
    if (!chunk.lp?.length) return [spanOf(chunk.x)];
    if (!this.byToken || chunk.w?.length !== chunk.lp.length)
      return [spanOf(chunk.x, shade(chunk.lp))];
    const points = [...chunk.x];
    let at = 0;
    return chunk.w
      .map((wide, n) => spanOf(points.slice(at, (at += wide)).join(""), shade([chunk.lp[n]])))
      .filter((piece) => piece.textContent);
  }

  answer(chunk) {
    this.next = chunk.o + chunk.n;
    this.begin("user").words.append(spanOf(chunk.x));
    this.begin("assistant").words.append(this.caret);
  }

  change(chunk) {
    this.next = chunk.o + chunk.n;
    for (const gone of this.turns.splice(chunk.turn + 1)) gone.element.remove();
    while (this.turns.length <= chunk.turn)
      this.begin(this.turns.length % 2 ? "user" : "assistant");
    this.caret.remove();
    cut(this.last.words, chunk.keep);
    const typed = spanOf(chunk.x, "typed");
    if (chunk.by) typed.title = `Written by ${chunk.by}`;
    this.last.words.append(typed, this.caret);
  }
}
