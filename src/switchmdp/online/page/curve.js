const PAPER = 680; // the width of the printed figure
const MOST_POINTS = 80;

/* Merge neighbouring buckets, starting with the first, until there are few enough. */
function merged(buckets) {
  const k = Math.ceil(buckets.length / MOST_POINTS);
  const groups = buckets.filter((_, i) => i % k === 0).map((_, i) => buckets.slice(i * k, (i + 1) * k));
  return groups.map((group) => {
    const n = group.reduce((total, bucket) => total + bucket.n, 0);
    const sum = group.reduce((total, bucket) => total + bucket.n * bucket.mean, 0);
    return { from: group[0].from, to: group.at(-1).to, n, mean: sum / n };
  });
}

/* The reward rate: a point for every n feedback events, and the mean over the last few points. */
class Curve {
  constructor(box, readout) {
    this.box = box;
    this.readout = readout;
    this.points = [];
    this.cursor = null; // the selected feedback event; null: the latest
    box.addEventListener("pointermove", (event) => this.pointAt(event.clientX));
    box.addEventListener("pointerleave", () => this.leave());
    box.addEventListener("focus", () => this.moveTo(this.points.length - 1));
    box.addEventListener("blur", () => this.leave());
    box.addEventListener("keydown", (event) => this.press(event));
    new ResizeObserver(() => this.draw()).observe(box);
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
  }

  show(buckets, alerts, restarts) {
    let end = 0;
    this.points = merged(buckets).map((bucket) => ({ ...bucket, end: (end += bucket.n) }));
    this.size = Math.max(1, ...this.points.map((point) => point.n));
    this.lag = Math.ceil(this.points.length / 15);
    this.points.forEach((point, i) => {
      const last = this.points.slice(Math.max(0, i + 1 - this.lag), i + 1);
      const sum = (value) => last.reduce((total, each) => total + value(each), 0);
      point.over = sum((each) => each.n);
      point.trailing = sum((each) => each.n * each.mean) / point.over;
    });
    this.alerts = alerts.filter((alert) => alert.step <= end);
    this.restarts = restarts.filter((restart) => restart.step <= end);
    this.draw();
  }

  get latest() {
    return this.points.at(-1);
  }

  get at() {
    if (this.cursor === null) return this.points.length - 1;
    const index = this.points.findIndex((point) => point.end >= this.cursor);
    return index < 0 ? this.points.length - 1 : index;
  }

  /* The time of a feedback event, up to the width of its bucket. */
  momentOf(step) {
    return (this.points.find((point) => point.end >= step) ?? this.latest).to;
  }

  moveTo(i) {
    if (!this.points.length) return;
    this.cursor = this.points[clamp(i, 0, this.points.length - 1)].end;
    this.draw();
  }

  leave() {
    if (document.activeElement === this.box) return;
    this.cursor = null;
    this.draw();
  }

  pointAt(x) {
    if (!this.points.length) return;
    const { left, right } = this.plot;
    const share = (x - this.box.getBoundingClientRect().left - left) / (right - left);
    const step = clamp(share, 0, 1) * this.latest.end;
    this.moveTo(this.points.findIndex((point) => point.end - point.n / 2 >= step - this.size / 2));
  }

  press(event) {
    const last = this.points.length - 1;
    const far = Math.max(1, Math.round(last / 10));
    const to = {
      ArrowLeft: this.at - 1, ArrowDown: this.at - 1, ArrowRight: this.at + 1, ArrowUp: this.at + 1,
      PageDown: this.at - far, PageUp: this.at + far, Home: 0, End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.moveTo(to);
  }

  describe() {
    const point = this.points[this.at];
    const first = point.end - point.n + 1;
    const isHere = (each) => each.step >= first && each.step <= point.end;
    const marks = `${this.alerts.some(isHere) ? "; change alert" : ""}${this.restarts.some(isHere) ? "; the agent restarted" : ""}`;
    const which = point.n === 1 ? `Feedback ${whole(first)}` : `Feedback ${whole(first)} to ${whole(point.end)}`;
    const span = Date.now() / 1000 - point.to > 86400 ? `${clock(point.to, Infinity)}, ` : "";
    return `${which} (${span}${clock(point.to)}): mean reward ${decimal(point.mean)}, trailing mean ` +
      `${decimal(point.trailing)}${marks}.`;
  }

  print(printing) {
    this.printing = printing;
    this.draw();
  }

  draw() {
    const width = this.printing ? PAPER : Math.round(this.box.clientWidth);
    if (!width) return;
    if (!this.points.length) {
      this.box.replaceChildren(element("p", { class: "empty soft" }, "No feedback yet."));
      say(this.readout, "");
      return;
    }
    const height = Math.round(clamp(0.42 * width, 240, 360));
    const { left, right, top, bottom } = (this.plot = { left: 44, right: width - 14, top: 32, bottom: height - 50 });
    // Without the last bucket while it has few events: its mean would be a spike.
    const full = this.points.filter((point, i) => !i || 2 * point.n >= this.size);
    const highest = Math.max(0.01, ...full.map((p) => p.mean), ...this.points.map((p) => p.trailing));
    const rates = ticks(Math.min(1, 1.05 * highest), 5);
    if (rates.at(-1) < highest) rates.push(rates.at(-1) + rates[1]);
    const x = (step) => left + ((right - left) * step) / this.latest.end;
    const y = (rate) => bottom - ((bottom - top) * rate) / rates.at(-1);
    const line = (points, rate, name) =>
      drawn("polyline", { class: name, points: points.map((p) => `${x(p.end).toFixed(1)},${y(rate(p)).toFixed(1)}`).join(" ") });
    const at = this.points[this.at];
    this.box.replaceChildren(drawn(
      "svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
      ...this.axes(rates, x, y),
      ...this.restarts.map(({ step }) => drawn("line", { class: "restart", x1: x(step), x2: x(step), y1: top, y2: bottom })),
      ...this.alerts.flatMap((alert) => [
        drawn("line", { class: "alert", x1: x(alert.step), x2: x(alert.step), y1: top, y2: bottom }),
        drawn("path", { class: "flag", d: `M${x(alert.step) - 5} ${top - 9}h10l-5 9z` }),
      ]),
      line(full, (p) => p.mean, "bucket"),
      line(this.points, (p) => p.trailing, "trailing"),
      ...(this.cursor === null ? [] : [drawn("line", { class: "cursor", x1: x(at.end), x2: x(at.end), y1: top, y2: bottom })]),
      drawn("circle", { class: "spot", cx: x(at.end), cy: y(at.trailing), r: 4.5 }),
    ));
    this.updateReadout();
  }

  axes(rates, x, y) {
    const { left, right, bottom } = this.plot;
    const text = (content, attributes) => drawn("text", attributes, content);
    const total = this.latest.end;
    const span = this.latest.to - this.points[0].from;
    const nodes = rates.flatMap((rate) => [
      drawn("line", { class: "grid", x1: left, x2: right, y1: y(rate), y2: y(rate) }),
      text(decimal(rate), { x: left - 8, y: y(rate) + 4, "text-anchor": "end" }),
    ]);
    let before = "";
    for (const step of ticks(total, (right - left) / 90, 1)) {
      const anchor = x(step) > right - 24 ? "end" : step ? "middle" : "start";
      const moment = clock(step ? this.momentOf(step) : this.points[0].from, span);
      nodes.push(
        drawn("line", { class: "tick", x1: x(step), x2: x(step), y1: bottom, y2: bottom + 4 }),
        text(whole(step), { x: x(step), y: bottom + 17, "text-anchor": anchor }),
        text(moment === before ? "" : moment, { class: "moment", x: x(step), y: bottom + 31, "text-anchor": anchor }),
      );
      before = moment;
    }
    nodes.push(
      text("mean reward", { class: "title", x: 0, y: 12 }),
      text("feedback events, and their time", { class: "title", x: right, y: bottom + 47, "text-anchor": "end" }),
    );
    return nodes;
  }

  /* Describe the selected point as text, also for screen readers. */
  updateReadout() {
    const text = this.describe();
    say(this.readout, text);
    const values = { valuemin: 1, valuemax: this.points.length, valuenow: this.at + 1, valuetext: text };
    for (const [name, value] of Object.entries(values)) this.box.setAttribute(`aria-${name}`, value);
  }
}
