// Stores the points of a run's metrics: metric → step → { y, low, high }, and the x value of each
// step.

export class SeriesStore {
  constructor() {
    this.clear();
  }

  clear() {
    this.xByStep = new Map(); // step → x
    this.series = new Map(); // metric → Map(step → {y, low, high})
    this.step = 0; // the newest step that the server was asked about
    this.stepsPerPoint = 1;
    this.appendedCount = 0; // points appended since the last full load
  }

  // Add a response of the server. It contains all points from its first x value on, which replace
  // those stored.
  append({ step, steps, x, series }) {
    steps.forEach((each, n) => this.xByStep.set(each, x[n]));
    for (const [name, columns] of Object.entries(series))
      this.#setPoints(name, columns, steps, x[0]);
    this.step = Math.max(this.step, step);
    this.appendedCount += steps.length;
  }

  // Take the response to a full load.
  replace(data) {
    this.stepsPerPoint = Math.max(this.stepsPerPoint, data.wide);
    this.append(data);
    this.appendedCount = 0;
  }

  #setPoints(name, { y, low, high }, steps, firstX) {
    const points = this.series.get(name) ?? new Map();
    for (const step of points.keys()) if (this.xByStep.get(step) >= firstX) points.delete(step);
    steps.forEach((step, n) => {
      if (y[n] !== null)
        points.set(step, { y: y[n], low: low?.[n] ?? y[n], high: high?.[n] ?? y[n] });
    });
    this.series.set(name, points);
  }

  has(name) {
    return Boolean(this.series.get(name)?.size);
  }

  // Return the steps at which one of these metrics has a value, in order.
  steps(names) {
    const steps = [...new Set(names.flatMap((name) => [...(this.series.get(name)?.keys() ?? [])]))];
    return steps.sort((a, b) => this.xByStep.get(a) - this.xByStep.get(b) || a - b);
  }

  column(name, steps, part = "y") {
    const points = this.series.get(name);
    return steps.map((step) => points?.get(step)?.[part] ?? null);
  }

  // Whether points of this metric combine several steps with different values.
  hasBand(name) {
    for (const point of this.series.get(name)?.values() ?? [])
      if (point.low !== point.high) return true;
    return false;
  }

  latest(name) {
    const points = [...(this.series.get(name) ?? [])];
    return points.reduce((last, point) => (last && last[0] > point[0] ? last : point), null)?.[1].y;
  }
}

// Exponential moving average with bias correction; gaps stay gaps.
export function smooth(values, weight) {
  let sum = 0,
    weightSum = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    weightSum = weight * weightSum + (1 - weight);
    return sum / weightSum;
  });
}
