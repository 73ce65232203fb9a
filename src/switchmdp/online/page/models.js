const PAGE_SIZE = 50;
const SPARK = { width: 140, height: 32 };

/* The mean reward over time as a small line, from 0 to the largest mean. */
function spark(buckets) {
  if (!buckets?.length) return element("span", { class: "soft small" }, "no feedback");
  const size = Math.max(...buckets.map((bucket) => bucket.n));
  if (buckets.length > 2 && buckets.at(-1).n < size / 2) buckets = buckets.slice(0, -1); // a few rewards are mostly noise
  const highest = Math.max(0.01, ...buckets.map((bucket) => bucket.mean));
  const total = buckets.reduce((sum, bucket) => sum + bucket.n, 0);
  let end = 0;
  const points = buckets.map(({ n, mean }) => {
    end += n;
    return `${((SPARK.width * (end - n / 2)) / total).toFixed(1)},${(SPARK.height - 2 - ((SPARK.height - 4) * mean) / highest).toFixed(1)}`;
  });
  const [first, last] = [buckets[0].mean, buckets.at(-1).mean];
  const label = `mean reward from ${decimal(first)} to ${decimal(last)}, at most ${decimal(highest)}`;
  const base = SPARK.height - 1;
  return drawn(
    "svg", { class: "spark", viewBox: `0 0 ${SPARK.width} ${SPARK.height}`, role: "img", "aria-label": label },
    drawn("line", { x1: 0, x2: SPARK.width, y1: base, y2: base }),
    drawn("polyline", { points: (points.length > 1 ? points : [`0,${points[0].split(",")[1]}`, `${SPARK.width},${points[0].split(",")[1]}`]).join(" ") }),
  );
}

/* The list of models, one page at a time. */
class ModelList {
  /* `changed` is called when another page is wanted. */
  constructor(changed) {
    this.changed = changed;
    this.before = []; // the `after` of the previous pages
    this.after = "";
    this.next = null;
    this.names = "";
    let timer = 0;
    byId("filter").addEventListener("submit", (event) => event.preventDefault());
    byId("search").addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.restart(), 200);
    });
    byId("archived").addEventListener("change", () => this.restart());
    byId("next").addEventListener("click", () => this.turn([...this.before, this.after], this.next));
    byId("previous").addEventListener("click", () => this.turn(this.before.slice(0, -1), this.before.at(-1)));
  }

  restart() {
    this.turn([], "");
  }

  turn(before, after) {
    this.before = before;
    this.after = after;
    this.changed();
  }

  async load() {
    const wanted = { limit: PAGE_SIZE, archived: byId("archived").checked };
    if (this.after) wanted.after = this.after;
    const search = byId("search").value.trim();
    if (search) wanted.search = search;
    const page = await connection.get(`models?${new URLSearchParams(wanted)}`);
    return () => this.show(page, search);
  }

  show({ models, next }, search) {
    document.title = "Models · switchmdp";
    say(byId("name"), "switchmdp");
    say(byId("summary"), "The models of this decision service.");
    this.next = next;
    byId("next").disabled = next === null;
    byId("previous").disabled = !this.before.length;
    const first = PAGE_SIZE * this.before.length + 1;
    const what = byId("archived").checked ? "archived models" : "models";
    const which = search ? `${what} whose names contain “${search}”` : what;
    const some = `${first === 1 && next === null ? "" : `${whole(first)} to ${whole(first + models.length - 1)} of the `}`;
    say(byId("range"), models.length ? `${some || "All "}${which}${some ? "" : ` (${whole(models.length)})`}` : `There are no ${which}.`);
    byId("first").hidden = models.length > 0 || search !== "" || byId("archived").checked;
    const names = JSON.stringify(models.map((model) => model.name));
    if (names !== this.names) this.build(models);
    this.names = names;
    for (const model of models) this.update(this.rows.get(model.name), model);
  }

  build(models) {
    const columns = {
      Model: false, "Reward over time": false, "Mean reward": true, Decisions: true, Waiting: true,
      "Change alerts": true, "Last event": false, Agent: false, "States × actions": false,
    };
    this.rows = new Map();
    const rows = models.map(({ name }) => {
      const link = element("a", { href: `#/models/${encodeURIComponent(name)}` }, name);
      const cells = Object.values(columns).slice(1).map((isNumber) => element("td", isNumber ? { class: "number" } : {}));
      this.rows.set(name, cells);
      return element("tr", {}, element("th", { scope: "row" }, link), ...cells);
    });
    byId("models").hidden = !models.length;
    byId("models").replaceChildren(plainTable("list-title", columns, rows));
  }

  update([line, mean, decisions, waiting, changes, last, agent, size], model) {
    const shown = JSON.stringify(model.rewards);
    if (line.dataset.shown !== shown) line.replaceChildren(spark(model.rewards));
    line.dataset.shown = shown;
    say(mean, decimal(model.mean_reward));
    say(decisions, whole(model.decisions));
    say(waiting, whole(model.pending));
    say(changes, model.changes ? `▲ ${whole(model.changes)}` : whole(model.changes));
    changes.classList.toggle("warn", model.changes > 0);
    const age = known(model.last_event) ? Date.now() / 1000 - model.last_event : null;
    say(last, age === null ? "never" : `${duration(Math.max(0, age))} ago`);
    say(agent, model.agent ?? "–");
    say(size, `${whole(model.states)} × ${whole(model.actions)}`);
  }
}
