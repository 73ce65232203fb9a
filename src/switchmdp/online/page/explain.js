const INTERVALS = { confidence: "confidence interval", credible: "95 % credible interval" };

const signed = (value) => (Math.abs(value) < 0.0005 ? "0.000" : `${value > 0 ? "+" : ""}${value.toFixed(3)}`);
const kindOf = ({ next_state: to, next_state_name: name }) => (known(to) ? `moves to ${name ?? `state ${to}`}` : "reward");

/* Where the bars end: the smallest round number above all intervals of known means. */
function topOf(estimates) {
  const highest = Math.max(0, ...estimates.filter((each) => known(each.estimate ?? each.mean_reward)).map((each) => each.high));
  return highest === 0 ? 1 : [0.01, 0.02, 0.05, 0.1, 0.2, 0.5].find((top) => top >= highest) ?? 1;
}

/* A mean with its interval: text, and a bar from 0 to `top` for the eye. */
function estimate(mean, low, high, top) {
  const bar = element("div", { class: "whisker", "aria-hidden": "true" }, element("i", { class: "interval" }), element("i", { class: "dot" }));
  for (const [name, at] of Object.entries({ low, high, mean: mean ?? (low + high) / 2 })) bar.style.setProperty(`--${name}`, String(clamp((at ?? 0) / top, 0, 1)));
  bar.lastChild.hidden = !known(mean);
  return [
    element("span", { class: "value" }, known(mean) ? decimal(mean) : "unknown"),
    element("span", { class: "range soft" }, ` ${decimal(low)} to ${decimal(high)}`),
    bar,
  ];
}

/* A table whose columns are { title: whether it contains numbers }. */
function plainTable(label, columns, rows) {
  const heads = Object.entries(columns).map(([title, isNumber]) =>
    element("th", isNumber ? { scope: "col", class: "number" } : { scope: "col" }, title));
  return element(
    "table", { class: "plain", "aria-labelledby": label },
    element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows),
  );
}

/* What the model knows about each action in a state that the user chooses. */
class Explanation {
  constructor(changed) {
    this.state = null;
    byId("why").addEventListener("submit", (event) => {
      event.preventDefault();
      const given = byId("why-state").value.trim();
      this.state = given || null;
      changed();
    });
  }

  /* Start with the state that is visited most, and offer the others by name. */
  offer(states, labels) {
    const names = states.map((row) => labels.stateName(row.state) ?? String(row.state));
    const key = JSON.stringify(names);
    if (this.offered !== key) byId("why-states").replaceChildren(...names.map((name) => element("option", { value: name })));
    this.offered = key;
    if (this.state === null && states.length && byId("why-state").value === "") {
      const visits = (row) => row.actions.reduce((sum, pair) => sum + (pair.visits ?? 0), 0);
      const most = states.reduce((best, row) => (visits(row) > visits(best) ? row : best));
      this.state = labels.stateName(most.state) ?? String(most.state);
      byId("why-state").value = this.state;
    }
  }

  async load(path) {
    if (this.state === null) return () => {};
    try {
      const found = await connection.get(`${path}/explain?${new URLSearchParams({ state: this.state })}`);
      return () => this.show(found);
    } catch (error) {
      if (error.status !== 422 && error.status !== 404) throw error;
      return () => {
        byId("why-table").hidden = true;
        say(byId("why-note"), error.message);
      };
    }
  }

  show({ state, name, source, gain, actions }) {
    byId("why-table").hidden = false;
    const interval = INTERVALS[actions[0].interval];
    const top = topOf(actions);
    const plan = known(gain) ? ` The policy earns ${decimal(gain)} per decision according to these estimates.` : "";
    say(byId("why-note"), `${name ?? `State ${state}`}, from ${source}. Bars run from 0 to ${top}: the mean reward and its ${interval}. ` +
      `Value: the change in total reward if the action is taken once and the policy is followed afterwards.${plan}`);
    const key = JSON.stringify(actions);
    if (this.shown === key) return;
    this.shown = key;
    const rows = actions.map((each) => {
      const next = each.successors.map((to) => `${to.name ?? `state ${to.state}`} ${percent(to.probability)}`).join(", ");
      const change = each.last_change;
      const note = each.note ? [element("div", { class: "meta soft" }, each.note)] : [];
      const head = [each.name ?? `Action ${each.action}`, ...(each.chosen ? [element("span", { class: "plan" }, "▶ chosen")] : [])];
      return element(
        "tr", each.chosen ? { class: "chosen" } : {},
        element("th", { scope: "row" }, ...head),
        element("td", { class: "wide" }, ...estimate(each.estimate, each.low, each.high, top), ...note),
        element("td", { class: "number" }, known(each.value) ? signed(each.value) : "–"),
        element("td", { class: "number" }, whole(each.visits)),
        element("td", { class: "wide" }, next || "–"),
        element("td", change ? { class: "warn" } : {}, change ? `▲ ${kindOf(change)} ${difference(change)}` : "none"),
      );
    });
    const columns = {
      Action: false, "Mean reward": false, Value: true, Visits: true, "Likely next states": false,
      "Last change alert": false,
    };
    byId("why-table").replaceChildren(plainTable("why-title", columns, rows));
  }
}

/* The arms of a split test; hidden while there is only `main`. */
class Arms {
  async load(path) {
    const { arms } = await connection.get(`${path}/arms`);
    return () => this.show(arms);
  }

  show(arms) {
    byId("arms").hidden = arms.length < 2;
    const key = JSON.stringify(arms);
    if (arms.length < 2 || this.shown === key) return;
    this.shown = key;
    const [main, top] = [arms[0], topOf(arms)];
    say(byId("arms-note"), `The mean reward of each arm since the test started, with a 95 % interval; bars run from 0 to ${top}. ` +
      "All intervals hold at once: look whenever you like, and stop when two of them no longer overlap.");
    const verdict = (arm) => {
      if (arm === main) return "";
      if (arm.low > main.high) return "better than main";
      return arm.high < main.low ? "worse than main" : "no clear difference yet";
    };
    const rows = arms.map((arm) => element(
      "tr", {},
      element("th", { scope: "row" }, arm.name),
      element("td", { class: "wide" }, ...estimate(arm.mean_reward, arm.low, arm.high, top)),
      element("td", {}, verdict(arm)),
      element("td", {}, arm === main ? "the model’s agent" : arm.agent ? arm.agent.name : "a fixed policy"),
      element("td", { class: "number" }, percent(arm.share)),
      element("td", { class: "number" }, whole(arm.decisions)),
      element("td", { class: "number" }, whole(arm.feedback)),
    ));
    const columns = {
      Arm: false, "Mean reward": false, Compared: false, "Who chooses": false, "Share of sessions": true,
      Decisions: true, Feedback: true,
    };
    byId("arms-table").replaceChildren(plainTable("arms-title", columns, rows));
  }
}
