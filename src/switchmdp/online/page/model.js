const MODES = {
  agent: ["agent", "the agent chooses and learns"],
  fixed: ["fixed policy", "the agent only learns"],
  shadow: ["fixed policy", "the agent runs in shadow"],
};

/* The names of states and actions, where they have some. */
class Labels {
  constructor(model) {
    this.states = model.state_names ?? [];
    this.actions = model.action_names ?? [];
  }

  stateName(s) {
    return this.states[s] ?? null;
  }

  actionName(a) {
    return this.actions[a] ?? null;
  }

  state(s) {
    return this.stateName(s) ?? `state ${s}`;
  }

  action(a) {
    return this.actionName(a) ?? `action ${a}`;
  }
}

const capital = (text) => text.replace(/^(state|action) (?=\d+$)/, (word) => word[0].toUpperCase() + word.slice(1));

function meter(node, value, top, text) {
  const bar = node.firstChild ?? node.appendChild(element("i"));
  bar.style.width = `${100 * clamp(value / top, 0, 1)}%`;
  const values = { valuemin: 0, valuemax: top, valuenow: clamp(value, 0, top), valuetext: text };
  for (const [name, each] of Object.entries(values)) node.setAttribute(`aria-${name}`, each);
}

const subject = ({ state, action, next_state: next }, labels) =>
  known(next)
    ? `moving from ${labels.state(state)} by ${labels.action(action)} to ${labels.state(next)}`
    : `the reward of ${labels.action(action)} in ${labels.state(state)}`;
const difference = ({ next_state: next, before, now }) =>
  known(next) ? `from ${percent(before)} to ${percent(now)}` : `from ${decimal(before)} to ${decimal(now)}`;

/* One model: its reward over time, changes, policy, explanation and split test. */
class ModelView {
  constructor(changed) {
    this.curve = new Curve(byId("curve"), byId("readout"));
    this.table = new PolicyTable(byId("policy"));
    this.explanation = new Explanation(changed);
    this.arms = new Arms();
    this.facts = new Map();
  }

  /* Show another model from now on. */
  open(name) {
    if (this.name === name) return;
    this.name = name;
    this.quiet = true; // alerts in the first response are not announced
    this.model = null;
    this.explanation.state = null;
    byId("why-state").value = "";
  }

  /* Everything about the model. What changes slowly is requested every five seconds. */
  async load() {
    const path = pathOf(this.name);
    const now = performance.now();
    const isOld = !this.model || now - this.asked > 5000;
    const beliefs = await connection.get(`${path}/agent`);
    const model = isOld ? await connection.get(path) : this.model;
    const others = [];
    if (isOld) {
      this.labels = new Labels(model);
      this.explanation.offer(beliefs.states, this.labels);
      others.push(await this.arms.load(path));
      this.asked = now;
    }
    // With each change of the table of estimates, so that both show the same.
    const shows = JSON.stringify([this.explanation.state, beliefs.t, beliefs.gain, beliefs.counters, beliefs.memory]);
    if (isOld || shows !== this.explained) {
      others.push(await this.explanation.load(path));
      this.explained = shows;
    }
    return () => {
      this.model = model;
      for (const show of others) show();
      return this.show(beliefs);
    };
  }

  /* Returns the status of the page. */
  show(beliefs) {
    const { agent, signal } = beliefs;
    const isMain = this.name === "main"; // of the command line: its name says nothing
    const name = isMain ? agent.class : this.name;
    document.title = `${name} · switchmdp`;
    say(byId("name"), name);
    const parameters = Object.entries(agent.parameters).map(([key, value]) => `${key}\u00a0${Number.isInteger(value) ? whole(value) : value}`);
    const sizes = [counted(agent.states, "state"), counted(agent.actions, "action")];
    const archived = known(this.model.archived) ? ["archived"] : [];
    const settings = parameters.length ? `parameters of the agent: ${parameters.join(", ")}` : "";
    say(byId("summary"), [...(isMain ? [] : [agent.class]), ...sizes, settings, ...archived].filter(Boolean).join(" · "));
    const curve = this.curve;
    curve.show(beliefs.rewards, beliefs.alerts, beliefs.restarts);
    byId("trailing-name").textContent = `trailing mean, over about ${whole(curve.size * Math.max(1, curve.lag))}`;
    byId("bucket-name").textContent = curve.size === 1 ? "each feedback" : `mean of every ${whole(curve.size)}`;
    this.showFacts(beliefs);
    this.showSignal(signal);
    this.showAlerts(beliefs.alerts);
    this.showRestarts(beliefs.restarts);
    this.showMemory(beliefs.memory, beliefs);
    this.table.show(beliefs, this.labels);
    this.showNotes(beliefs);
    this.quiet = false;
    const age = known(beliefs.at) ? Date.now() / 1000 - beliefs.at : null;
    return age === null || age < 60 ? "live" : `live; nothing new for ${duration(age)}`;
  }

  fact(name, value, note = "") {
    if (!this.facts.has(name)) {
      const parts = { value: element("span"), note: element("small") };
      byId("facts").append(element("div", {}, element("dt", {}, name), element("dd", {}, parts.value, parts.note)));
      this.facts.set(name, parts);
    }
    say(this.facts.get(name).value, value);
    say(this.facts.get(name).note, note);
  }

  showFacts({ counters, episode, gain, mode, shadow, at }) {
    const now = this.curve.latest;
    this.fact("Reward rate", now ? decimal(now.trailing) : "–", now ? `mean of the last ${counted(now.over, "reward")}` : "no feedback yet");
    this.fact("Expected reward rate", decimal(gain), known(gain) ? "of the agent’s policy, by its own estimates" : "no plan yet");
    this.fact("Feedback counted", whole(counters.counted), known(at) ? `last event ${clock(at)}` : "");
    this.fact("Decisions made", whole(counters.decided), `${counted(counters.sessions, "session")}`);
    this.fact("Waiting for feedback", whole(counters.pending), `${whole(counters.expired)} expired`);
    if (known(episode)) this.fact("Episode", whole(episode.number), `same policy since step ${whole(episode.start)}`);
    const [who, note] = MODES[mode] ?? [mode, ""];
    const agreed = known(shadow.agreement) ? `agent agrees in ${percent(shadow.agreement)} of ${whole(shadow.compared)}` : note;
    this.fact("Who chooses", who, agreed);
  }

  showSignal({ latest, threshold, fires, compared }) {
    const strength = latest?.strength ?? 0;
    const verdict = fires ? "A change is likely" : known(latest) ? "No sign of a change" : "Not enough data to compare";
    byId("signal").classList.toggle("fires", fires);
    meter(byId("signal"), strength, 2 * threshold, `${decimal(strength)} of ${threshold}: ${verdict}`);
    say(byId("signal-text"), `${fires ? "▲ " : ""}${verdict}${known(latest) ? ` (${decimal(strength)}; the alert is at ${threshold})` : ""}.`);
    const note = known(latest) ? `Strongest sign, at feedback ${whole(latest.step)}: ${subject(latest, this.labels)}, ${difference(latest)}. ` +
      `Compared were the last ${counted(compared, "feedback event")} and as many before.` : "";
    say(byId("signal-note"), note);
  }

  /* Show what happened to the model, the latest first. */
  showEvents(list, events, item) {
    const key = JSON.stringify(events);
    if (list.dataset.shown === key) return;
    list.dataset.shown = key;
    list.setAttribute("aria-live", this.quiet ? "off" : "polite");
    const none = element("li", { class: "soft" }, "None so far.");
    list.replaceChildren(...(events.length ? [...events].reverse().map(item) : [none]));
  }

  showAlerts(alerts) {
    const item = (alert) => element(
      "li", {},
      element("b", {}, `▲ Feedback ${whole(alert.step)}`),
      element("span", {}, ` (${clock(this.curve.momentOf(alert.step))}): ${subject(alert, this.labels)}, ${difference(alert)}; strength ${decimal(alert.strength)}.`),
    );
    this.showEvents(byId("alerts"), alerts, item);
  }

  showRestarts(restarts) {
    const why = ({ asked, kept }) =>
      asked ? "on request, the agent forgot everything" : kept ? `the agent forgot data that were older than its last ${counted(kept, "step")}` : "the agent forgot its data";
    const item = (restart) => element(
      "li", {},
      element("b", {}, `Feedback ${whole(restart.step)}`),
      element("span", {}, ` (${clock(restart.time)}): ${why(restart)}.`),
    );
    this.showEvents(byId("restarts"), restarts, item);
  }

  showMemory({ window, remembered: steps }, { states, more_states: more }) {
    const bounded = known(window) && known(steps);
    byId("window").hidden = !bounded;
    if (bounded) meter(byId("window"), steps, window, `${whole(steps)} of ${whole(window)} steps`);
    const share = bounded ? `Window: ${whole(steps)} of ${whole(window)} steps, ${percent(steps / window)} full.` : "";
    const rewards = states.flatMap((row) => row.actions).reduce((sum, pair) => sum + pair.reward_visits, 0);
    const partly = !more && rewards < steps ? `, ${whole(Math.round(rewards))} of them with their reward` : "";
    const all = known(steps) ? `${counted(steps, "step")} remembered${partly}; no window.` : "This agent does not report its memory.";
    say(byId("window-text"), share || all);
  }

  showNotes(beliefs) {
    const interval = INTERVALS[beliefs.states[0].actions[0].interval];
    const bars = `Each bar runs from 0 to ${this.table.top}: the mark is the mean reward, estimated from ${beliefs.source}, the band its ${interval}.`;
    const marks = known(beliefs.fixed_policy) ? "▶ is the agent’s choice, ■ the fixed policy’s." : "▶ marks the agent’s choice.";
    say(byId("policy-note"), `${marks} ${bars} Actions that were not tried for a long time are paler.`);
    const more = beliefs.more_states;
    say(byId("more"), more ? `The ${counted(beliefs.states.length, "state")} visited most; ${whole(more)} more are not shown.` : "");
  }
}
