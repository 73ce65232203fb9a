"use strict";

/* Draws the charts of the page from the JSON in the element `charts`. Names come from an experiment's
   file. They are only used as text nodes, attribute values and canvas text, never as markup. */
(() => {
  const COLOURS = 7;
  const DASHES = [[], [9, 4], [9, 4, 2, 4], [2, 3], [15, 4], [5, 3, 2, 3, 2, 3], [14, 4, 2, 4]];
  const PAPER = { width: 640, height: 290, scale: 3 };
  const POWERS = Array.from({ length: 25 }, (_, i) => i - 12);
  const INTEGERS = POWERS.slice(12).flatMap((power) => [1, 2, 5].map((n) => n * 10 ** power));
  const root = document.documentElement;

  /* Format a number as in the tables: three digits, or all digits of the integer part. */
  function number(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    const text = size >= 999.5 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
    return size >= 999.5 ? text.replace(/\B(?=(\d{3})+$)/g, "\u00a0") : text;
  }

  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const colour = (style) => css(`--series-${style % COLOURS}`);
  // When the colours repeat, the dashes are shifted, so that the first 49 styles are all different.
  const dash = (style) => DASHES[(style + Math.floor(style / COLOURS)) % DASHES.length];
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

  /* Ticks of a logarithmic axis: the logarithms of round numbers, as many as fit. */
  function decades(low, high, room) {
    const inside = (powers) => powers.filter((power) => power >= low && power <= high);
    const fine = inside(POWERS.flatMap((power) => [0, Math.log10(2), Math.log10(5)].map((n) => power + n)));
    if (fine.length < 2) return [low, (low + high) / 2, high];
    return fine.length <= room ? fine : inside(POWERS);
  }

  function element(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  function swatch(style) {
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    const line = document.createElementNS(space, "line");
    const attributes = { x1: 0, x2: 34, y1: 5, y2: 5, "stroke-width": 2.5 };
    for (const [name, value] of Object.entries(attributes)) line.setAttribute(name, value);
    line.setAttribute("stroke-dasharray", dash(style).join(" ") || "none");
    line.style.stroke = `var(--series-${style % COLOURS})`;
    svg.setAttribute("width", 34);
    svg.setAttribute("height", 10);
    svg.setAttribute("aria-hidden", "true");
    svg.append(line);
    return svg;
  }

  class Chart {
    /* spec: title, x, xlabel, xname, log, points (whether they are drawn), marks [{x, label}], names,
       styles, and views [{name, curves}]; a curve is [mean, low, high], each as long as x. */
    constructor(figure, spec, number) {
      this.figure = figure;
      this.spec = spec;
      this.number = number;
      this.x = spec.x.map((value) => this.place(value));
      this.view = 0;
      this.hidden = new Set();
      this.range = null;
      this.index = null;
      this.width = 0;
      this.plot = element("div", {
        class: "plot", tabindex: 0, role: "application",
        "aria-label": `${spec.title}: chart. Left and right arrow keys read the values, ` +
          "plus and minus zoom, Escape resets the zoom.",
      });
      this.plot.addEventListener("keydown", (event) => this.key(event));
      this.plot.addEventListener("blur", () => this.leave());
      this.reset = element("button", { type: "button", class: "reset" }, "Reset zoom");
      this.reset.addEventListener("click", () => this.zoom(null));
      this.where = element("span", {});
      this.spoken = element("span", { class: "unseen" });
      const place = figure.querySelector(".interactive");
      place.append(
        element("div", { class: "controls" }, ...this.switches(), this.reset),
        this.plot,
        element("p", { class: "readout", "aria-live": "polite" }, this.where, this.spoken),
        this.legend(),
      );
      this.draw();
      new ResizeObserver(() => this.fit()).observe(place);
    }

    /* Position of a value on the x axis. */
    place(value) {
      return this.spec.log ? Math.log10(value) : value;
    }

    switches() {
      if (this.spec.views.length < 2) return [];
      const group = `view-${this.number}`;
      const choices = this.spec.views.map((view, i) => {
        const input = element("input", { type: "radio", name: group });
        input.checked = i === 0;
        input.addEventListener("change", () => {
          this.view = i;
          this.draw();
        });
        return element("label", {}, input, element("span", {}, view.name));
      });
      return [element("fieldset", { class: "views" }, element("legend", {}, "Show"), ...choices)];
    }

    legend() {
      this.values = this.spec.names.map(() => element("span", { class: "value" }));
      const items = this.spec.names.map((name, i) => {
        const attributes = { type: "button", class: "agent", "aria-pressed": "true" };
        const button = element("button", attributes, swatch(this.spec.styles[i]), name);
        button.addEventListener("click", () => {
          if (!this.hidden.delete(i)) this.hidden.add(i);
          button.setAttribute("aria-pressed", String(!this.hidden.has(i)));
          this.draw();
        });
        return element("li", {}, button, this.values[i]);
      });
      return element("ul", { class: "legend", "aria-label": "Show or hide agents" }, ...items);
    }

    /* The columns that uPlot expects: x, then low and high of every band, then the lines. */
    columns() {
      const { curves } = this.spec.views[this.view];
      return [
        this.x, ...curves.flatMap(([, low, high]) => [low, high]), ...curves.map(([middle]) => middle),
      ];
    }

    options(scale) {
      const { spec, hidden } = this;
      const n = spec.names.length;
      const shown = spec.names.map((_, i) => !hidden.has(i));
      const font = `${12 * scale}px system-ui, sans-serif`;
      const edge = (show) => ({ show, width: 0, points: { show: false }, spanGaps: spec.points });
      const edges = shown.flatMap((show) => [edge(show), edge(show)]);
      const lines = shown.map((show, i) => ({
        show,
        stroke: () => colour(spec.styles[i]),
        width: 2 * scale,
        dash: dash(spec.styles[i]).map((part) => part * scale),
        points: { show: spec.points, size: 7 * scale, fill: () => colour(spec.styles[i]) },
        spanGaps: spec.points,
      }));
      const axis = (rest) => ({
        stroke: () => css("--soft"), font, labelFont: font, labelGap: 2 * scale, gap: 5 * scale,
        grid: { stroke: () => css("--line"), width: scale },
        ticks: { stroke: () => css("--line"), width: scale, size: 5 * scale },
        values: (_, splits) => splits.map((value) => (value === null ? "" : number(value))),
        ...rest,
      });
      const across = { label: spec.xlabel, labelSize: 20 * scale, size: 28 * scale, space: 80 * scale };
      if (spec.log) {
        across.splits = (u, _, low, high) => decades(low, high, u.width / across.space);
        across.values = (_, splits) => splits.map((power) => number(10 ** power));
      } else if (spec.x.every(Number.isInteger)) across.incrs = INTEGERS;
      return {
        width: this.width * scale,
        height: this.height * scale,
        padding: [12 * scale, 30 * scale, 0, 0],
        legend: { show: false },
        series: [{}, ...edges, ...lines],
        bands: spec.names.map((_, i) => ({
          series: [2 + 2 * i, 1 + 2 * i],
          fill: () => `color-mix(in srgb, ${colour(spec.styles[i])} 20%, transparent)`,
        })),
        scales: {
          x: { time: false, range: () => this.range ?? this.whole() },
          y: { range: (_, low, high) => this.vertical(low, high) },
        },
        axes: [
          axis(across),
          axis({
            label: spec.views[this.view].name, labelSize: 22 * scale, space: 40 * scale,
            size: (_, labels) =>
              (14 + 7 * Math.max(3, ...(labels ?? []).map((label) => String(label).length))) * scale,
          }),
        ],
        cursor: {
          y: false,
          drag: { x: true, y: false, setScale: false },
          points: { show: (u, i) => i > 2 * n && this.point(spec.styles[i - 1 - 2 * n]) },
          bind: { dblclick: () => () => this.zoom(null) },
        },
        hooks: {
          drawAxes: [(u) => this.mark(u, scale)],
          setCursor: [(u) => this.read(u.cursor.idx ?? null)],
          setSelect: [(u) => this.select(u)],
        },
      };
    }

    point(style) {
      const node = element("div", {});
      Object.assign(node.style, {
        width: "8px", height: "8px", marginLeft: "-4px", marginTop: "-4px",
        background: `var(--series-${style % COLOURS})`,
      });
      return node;
    }

    /* Range of x without zoom; charts with points have a margin. */
    whole() {
      const [first, last] = [this.x[0], this.x[this.x.length - 1]];
      if (!this.spec.points) return [first, last];
      const air = (last - first) * 0.05 || 0.5;
      return [first - air, last + air];
    }

    vertical(low, high) {
      if (low === null) return [0, 1];
      const bottom = this.range ? low : Math.min(0, low);
      const air = (high - bottom) * 0.04 || 0.5;
      return [bottom < 0 || bottom === low ? bottom - air : bottom, high + air];
    }

    /* Draw vertical lines at the marks. */
    mark(u, scale) {
      const { left, top, width, height } = u.bbox;
      const { ctx } = u;
      const pixels = devicePixelRatio * scale;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = css("--soft");
      ctx.lineWidth = pixels;
      ctx.setLineDash([4 * pixels, 4 * pixels]);
      ctx.font = `${12 * pixels}px system-ui, sans-serif`;
      this.spec.marks.forEach(({ x, label }, i) => {
        const at = Math.round(u.valToPos(this.place(x), "x", true));
        if (at < left || at > left + width) return;
        ctx.beginPath();
        ctx.moveTo(at, top);
        ctx.lineTo(at, top + height);
        ctx.stroke();
        ctx.textAlign = at > left + width / 2 ? "right" : "left";
        const aside = ctx.textAlign === "left" ? 5 * pixels : -5 * pixels;
        ctx.fillText(label, at + aside, top + (12 + 14 * (i % 8)) * pixels);
      });
      ctx.restore();
    }

    draw() {
      const place = this.plot.parentElement;
      const paper = root.classList.contains("printing");
      this.width = paper ? PAPER.width : place.clientWidth;
      this.height = paper ? PAPER.height : clamp(Math.round(this.width * 0.42), 260, 420);
      this.u?.destroy();
      this.u = new uPlot(this.options(paper ? PAPER.scale : 1), this.columns(), this.plot);
      this.u.root.style.zoom = paper ? 1 / PAPER.scale : "";
      this.reset.disabled = this.range === null;
      this.read(null);
    }

    fit() {
      const paper = root.classList.contains("printing");
      if (!paper && this.plot.parentElement.clientWidth !== this.width) this.draw();
    }

    zoom(range) {
      const [min, max] = range ?? this.whole();
      this.range = range;
      this.u.batch(() => this.u.setScale("x", { min, max })); // batch: update at once, because the cursor needs the new scale
      this.reset.disabled = range === null;
    }

    select(u) {
      const { left, width } = u.select;
      if (width < 4) return;
      this.zoom([u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
      u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    }

    /* First and last index of the values in view. */
    visible() {
      const [low, high] = this.range ?? this.whole();
      const inside = this.x.flatMap((value, i) => (value >= low && value <= high ? [i] : []));
      return [inside[0] ?? 0, inside[inside.length - 1] ?? this.spec.x.length - 1];
    }

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const [first, last] = this.visible();
      const stride = Math.max(1, Math.round((last - first) / 10));
      const moves = {
        ArrowLeft: (i) => i - 1, ArrowRight: (i) => i + 1,
        PageUp: (i) => i - stride, PageDown: (i) => i + stride,
        Home: () => first, End: () => last,
      };
      if (event.key === "Escape") this.zoom(null);
      else if (event.key === "+" || event.key === "=") this.magnify(0.5);
      else if (event.key === "-") this.magnify(2);
      else if (event.key in moves) {
        const start = this.index ?? (event.key === "ArrowRight" ? first - 1 : last + 1);
        this.go(clamp(moves[event.key](start), first, last));
      } else return;
      event.preventDefault();
    }

    go(index) {
      const left = this.u.valToPos(this.x[index], "x");
      this.u.setCursor({ left, top: this.u.over.clientHeight / 2 });
      this.read(index);
    }

    /* Zoom around the selected value, or around the middle. */
    magnify(factor) {
      const [first, last] = this.whole();
      const [low, high] = this.range ?? [first, last];
      const at = this.index;
      const middle = at === null ? (low + high) / 2 : this.x[at];
      const least = (last - first) / 200;
      const half = Math.max(((high - low) / 2) * factor, least);
      const range = [Math.max(first, middle - half), Math.min(last, middle + half)];
      this.zoom(range[0] === first && range[1] === last ? null : range);
      if (at !== null) this.go(at);
    }

    leave() {
      this.u.setCursor({ left: -10, top: -10 });
      this.read(null);
    }

    /* Show each curve's value at the selected index, or at its end if nothing is selected. */
    read(index) {
      const { spec } = this;
      this.index = index;
      const at = index ?? spec.x.length - 1;
      const x = number(spec.x[at]);
      const view = spec.views[this.view];
      this.where.textContent = `Mean ${view.name} with 95 % interval at ${spec.xname} ${x}`;
      const sentences = [];
      spec.names.forEach((name, i) => {
        const [middle, low, high] = view.curves[i].map((curve) => number(curve[at]));
        const band = element("small", {}, ` [${low}, ${high}]`);
        this.values[i].replaceChildren(this.hidden.has(i) ? "hidden" : middle);
        if (this.hidden.has(i)) return;
        this.values[i].append(band);
        sentences.push(`${name}: ${middle}, from ${low} to ${high}`);
      });
      this.spoken.textContent = index === null ? "" : `. ${sentences.join("; ")}.`;
    }
  }

  const specs = JSON.parse(document.getElementById("charts").textContent);
  const figures = document.querySelectorAll("figure.chart");
  const charts = [...figures].map((figure, i) => new Chart(figure, specs[i], i));
  const redraw = () => charts.forEach((chart) => chart.draw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  /* For printing, open all details and redraw the charts in light colours at a sharp resolution. */
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const details of opened) details.open = true;
    root.classList.add("printing");
    redraw();
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
    root.classList.remove("printing");
    redraw();
  });
})();
