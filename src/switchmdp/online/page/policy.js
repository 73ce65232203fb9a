function since(steps, seconds) {
  if (!known(steps)) return "never tried";
  return steps ? `last ${duration(seconds)}\u00a0ago (${counted(steps, "feedback event")})` : "last just now";
}

/* The table of states and actions. It is rebuilt only when other states or actions are shown;
   otherwise its cells are updated in place. */
class PolicyTable {
  constructor(box) {
    this.box = box;
    this.shape = "";
  }

  show(beliefs, labels) {
    this.labels = labels;
    const actions = Array.from({ length: beliefs.agent.actions }, (_, a) => labels.action(a));
    const shape = JSON.stringify([actions, beliefs.states.map((row) => [labels.state(row.state), row.actions.length])]);
    if (shape !== this.shape) this.build(beliefs);
    this.shape = shape;
    const lifetime = beliefs.memory.window ?? beliefs.signal.window;
    this.top = topOf(beliefs.states.flatMap((row) => row.actions));
    for (const row of beliefs.states) {
      const { head, rest, cells } = this.rows.get(row.state);
      const fixed = beliefs.fixed_policy?.[row.state];
      const plan = known(row.policy) ? `▶ ${labels.action(row.policy)}` : "no plan yet";
      say(head, known(fixed) ? `■ fixed: ${labels.actionName(fixed) ?? fixed}, agent: ${labels.actionName(row.policy) ?? row.policy ?? "–"}` : plan);
      const unknown = row.actions.filter((pair) => !known(pair.estimate) && pair.action !== row.policy && pair.action !== fixed);
      say(rest, unknown.length ? `${counted(unknown.length, "action")} unknown` : "");
      for (const pair of row.actions) {
        this.update(cells.get(pair.action), pair, lifetime, pair.action === row.policy, pair.action === fixed);
      }
    }
  }

  build(beliefs) {
    const actions = Array.from({ length: beliefs.agent.actions }, (_, a) => a);
    this.rows = new Map();
    const body = element("tbody", { role: "rowgroup" }, ...beliefs.states.map((row) => this.row(row, actions)));
    const heads = actions.map((a) => element("th", { scope: "col", role: "columnheader" }, capital(this.labels.action(a))));
    const head = element("tr", { role: "row" }, element("th", { scope: "col", role: "columnheader" }, "State"), ...heads);
    this.box.replaceChildren(element(
      "table", { role: "table", "aria-labelledby": "policy-title" },
      element("thead", { role: "rowgroup" }, head), body,
    ));
  }

  row(row, actions) {
    const head = element("span", { class: "plan" });
    const cells = new Map(row.actions.map((pair) => [pair.action, this.cell(pair.action)]));
    const rest = element("span", { class: "rest soft" }); // replaces their cells on narrow screens
    this.rows.set(row.state, { head, rest, cells });
    const title = element("th", { scope: "row", role: "rowheader" }, element("b", {}, capital(this.labels.state(row.state))), rest, head);
    const missing = () => element("td", { role: "cell", class: "missing soft" }, "not available");
    return element("tr", { role: "row" }, title, ...actions.map((a) => cells.get(a)?.cell ?? missing()));
  }

  cell(action) {
    const parts = {
      value: element("span", { class: "value" }), range: element("span", { class: "range soft" }),
      mark: element("span", { class: "mark" }), meta: element("div", { class: "meta soft" }),
      source: element("div", { class: "meta soft" }), // of an estimate, if it is not from the visits
      whisker: element("div", { class: "whisker", "aria-hidden": "true" },
        element("i", { class: "interval" }), element("i", { class: "dot" })),
    };
    parts.cell = element(
      "td", { role: "cell" },
      element("div", { class: "top" }, element("span", { class: "which" }, capital(this.labels.action(action))), parts.value, parts.range, parts.mark),
      parts.whisker, parts.meta, parts.source,
    );
    return parts;
  }

  /* `lifetime`: the number of feedback events after which a pair has faded completely. */
  update({ cell, value, range, mark, meta, source, whisker }, pair, lifetime, chosen, fixed) {
    const { estimate, low, high, visits, reward_visits: rewards, note, feedbacks_ago: steps, seconds_ago: seconds } = pair;
    const fresh = known(steps) ? 1 - clamp(steps / lifetime, 0, 1) : 0;
    cell.style.setProperty("--fresh", fresh.toFixed(2));
    cell.classList.toggle("chosen", chosen);
    cell.classList.toggle("fixed", fixed);
    say(mark, [chosen ? "▶ chosen" : "", fixed ? "■ fixed" : ""].filter(Boolean).join(" "));
    cell.classList.toggle("unknown", !known(estimate));
    say(value, known(estimate) ? decimal(estimate) : "unknown");
    say(range, `${decimal(low)} to ${decimal(high)}`);
    whisker.lastChild.hidden = !known(estimate);
    for (const [name, at] of Object.entries({ low, high, mean: estimate })) {
      whisker.style.setProperty(`--${name}`, String(clamp((at ?? 0) / this.top, 0, 1)));
    }
    const remembered = visits || rewards ? counted(visits, "visit") : known(steps) ? "forgotten" : "";
    say(meta, [remembered, since(steps, seconds)].filter(Boolean).join(" · "));
    say(source, visits || rewards ? note ?? "" : "");
  }
}
