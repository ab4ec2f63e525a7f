// The points that a run's page has: metric → step → {y, low, high}, and where each step stands on
// the x axis.

export class Sheet {
  constructor() {
    this.clear();
  }

  clear() {
    this.places = new Map(); // step → x
    this.series = new Map(); // metric → Map(step → {y, low, high})
    this.step = 0; // the newest that was asked about
    this.wide = 1; // steps of a point
    this.added = 0; // points that came since the whole was read
  }

  // Put an answer of the server in: it says all there is from its first x on.
  take({ step, steps, x, series }) {
    steps.forEach((each, n) => this.places.set(each, x[n]));
    for (const [name, columns] of Object.entries(series)) this.#put(name, columns, steps, x[0]);
    this.step = Math.max(this.step, step);
    this.added += steps.length;
  }

  read(answer) {
    this.wide = Math.max(this.wide, answer.wide);
    this.take(answer);
    this.added = 0;
  }

  #put(name, { y, low, high }, steps, first) {
    const points = this.series.get(name) ?? new Map();
    for (const step of points.keys()) if (this.places.get(step) >= first) points.delete(step);
    steps.forEach((step, n) => {
      if (y[n] !== null)
        points.set(step, { y: y[n], low: low?.[n] ?? y[n], high: high?.[n] ?? y[n] });
    });
    this.series.set(name, points);
  }

  has(name) {
    return Boolean(this.series.get(name)?.size);
  }

  // The steps at which one of these metrics has a value, in order.
  steps(names) {
    const steps = [...new Set(names.flatMap((name) => [...(this.series.get(name)?.keys() ?? [])]))];
    return steps.sort((a, b) => this.places.get(a) - this.places.get(b) || a - b);
  }

  column(name, steps, part = "y") {
    const points = this.series.get(name);
    return steps.map((step) => points?.get(step)?.[part] ?? null);
  }

  isBanded(name) {
    for (const point of this.series.get(name)?.values() ?? [])
      if (point.low !== point.high) return true;
    return false;
  }

  newest(name) {
    const points = [...(this.series.get(name) ?? [])];
    return points.reduce((last, point) => (last && last[0] > point[0] ? last : point), null)?.[1].y;
  }
}

// Exponential moving average without the bias of its beginning; gaps stay gaps.
export function smoothed(values, weight) {
  let sum = 0,
    mass = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    mass = weight * mass + (1 - weight);
    return sum / mass;
  });
}
