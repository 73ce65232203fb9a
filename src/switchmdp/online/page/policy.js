function since(steps, seconds) {
  if (!known(steps)) return "never tried";
  return steps ? `${counted(steps, "feedback")}, ${duration(seconds)}\u00a0ago` : "just now";
}

/* The table of states and actions. It is made anew only when another set of states is shown; else
   the cells are brought up to date where they are. */
class PolicyTable {
  constructor(box) {
    this.box = box;
    this.shape = "";
  }

  show(told) {
    const shape = JSON.stringify([told.agent.actions, told.states.map((row) => [row.state, row.actions.length])]);
    if (shape !== this.shape) this.build(told);
    this.shape = shape;
    const lasting = told.memory.window ?? told.signal.window;
    for (const row of told.states) {
      const { head, rest, cells } = this.rows.get(row.state);
      const fixed = told.fixed_policy?.[row.state];
      const plan = known(row.policy) ? `▶ action ${row.policy}` : "no plan yet";
      say(head, known(fixed) ? `■ fixed: ${fixed}, agent: ${row.policy ?? "–"}` : plan);
      const unknown = row.actions.filter((pair) => !known(pair.estimate) && pair.action !== row.policy && pair.action !== fixed);
      say(rest, unknown.length ? `${counted(unknown.length, "action")} unknown` : "");
      for (const pair of row.actions) {
        this.update(cells.get(pair.action), pair, lasting, pair.action === row.policy, pair.action === fixed);
      }
    }
  }

  build(told) {
    const actions = Array.from({ length: told.agent.actions }, (_, a) => a);
    this.rows = new Map();
    const body = element("tbody", { role: "rowgroup" }, ...told.states.map((row) => this.row(row, actions)));
    const heads = actions.map((a) => element("th", { scope: "col", role: "columnheader" }, `Action ${a}`));
    const head = element("tr", { role: "row" }, element("th", { scope: "col", role: "columnheader" }, "State"), ...heads);
    this.box.replaceChildren(element(
      "table", { role: "table", "aria-labelledby": "policy-title" },
      element("thead", { role: "rowgroup" }, head), body,
    ));
  }

  row(row, actions) {
    const head = element("span", { class: "plan" });
    const cells = new Map(row.actions.map((pair) => [pair.action, this.cell(pair.action)]));
    const rest = element("span", { class: "rest soft" }); // instead of their cells, where it is narrow
    this.rows.set(row.state, { head, rest, cells });
    const title = element("th", { scope: "row", role: "rowheader" }, element("b", {}, `State ${row.state}`), rest, head);
    const missing = () => element("td", { role: "cell", class: "missing soft" }, "not available");
    return element("tr", { role: "row" }, title, ...actions.map((a) => cells.get(a)?.cell ?? missing()));
  }

  cell(action) {
    const parts = {
      value: element("span", { class: "value" }), range: element("span", { class: "range soft" }),
      mark: element("span", { class: "mark" }), meta: element("div", { class: "meta soft" }),
      whisker: element("div", { class: "whisker", "aria-hidden": "true" },
        element("i", { class: "interval" }), element("i", { class: "dot" })),
    };
    parts.cell = element(
      "td", { role: "cell" },
      element("div", { class: "top" }, element("span", { class: "which" }, `Action ${action}`), parts.value, parts.range, parts.mark),
      parts.whisker, parts.meta,
    );
    return parts;
  }

  /* `lasting`: the number of feedback events after which a pair has faded. */
  update({ cell, value, range, mark, meta, whisker }, pair, lasting, chosen, fixed) {
    const { estimate, low, high, visits, feedbacks_ago: steps, seconds_ago: seconds } = pair;
    const fresh = known(steps) ? 1 - clamp(steps / lasting, 0, 1) : 0;
    cell.style.setProperty("--fresh", fresh.toFixed(2));
    cell.classList.toggle("chosen", chosen);
    cell.classList.toggle("fixed", fixed);
    say(mark, [chosen ? "▶ chosen" : "", fixed ? "■ fixed" : ""].filter(Boolean).join(" "));
    cell.classList.toggle("unknown", !known(estimate));
    say(value, known(estimate) ? decimal(estimate) : "unknown");
    say(range, known(estimate) && known(low) ? `${decimal(low)} to ${decimal(high)}` : "");
    whisker.hidden = !known(low) && !known(estimate);
    whisker.firstChild.hidden = !known(low); // not every agent has confidence intervals
    for (const [name, at] of Object.entries({ low, high, mean: estimate })) {
      whisker.style.setProperty(`--${name}`, String(at ?? 0));
    }
    const remembered = visits ? counted(visits, "visit") : known(visits) && known(steps) ? "forgotten" : "";
    say(meta, [remembered, since(steps, seconds)].filter(Boolean).join(" · "));
  }
}
