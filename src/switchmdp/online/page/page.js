/* Polls the service while the page is visible, and shows the agent's policy and estimates. */
(() => {
  const INTERVAL = 1000; // milliseconds from a response to the next request
  const LONGEST_INTERVAL = 30000;
  const TIMEOUT = 10000;
  const MODES = {
    agent: ["agent", "the agent chooses and learns"],
    fixed: ["fixed policy", "the agent only learns"],
    shadow: ["fixed policy", "the agent runs in shadow"],
  };
  const curve = new Curve(byId("curve"), byId("readout"));
  const table = new PolicyTable(byId("policy"));
  const facts = new Map();
  let token = storedToken();
  let timer = 0;
  let polling = false;
  let failures = 0;
  let lost = null; // the time since which the service cannot be reached
  let quiet = true; // alerts in the first response are not announced

  function storedToken(value) {
    try {
      if (value !== undefined) sessionStorage.setItem("token", value);
      return sessionStorage.getItem("token") ?? "";
    } catch {
      return value ?? ""; // storage is disabled: after a reload the user has to enter the token again
    }
  }

  function status(name, text) {
    document.body.dataset.status = name;
    say(byId("status-text"), text);
    byId("retry").hidden = name !== "lost";
  }

  async function poll() {
    clearTimeout(timer);
    if (polling || document.hidden) return;
    polling = true;
    const started = performance.now();
    let wait = null;
    let reason = "The service cannot be reached";
    try {
      const headers = token ? { Authorization: `Bearer ${token}` } : {};
      const options = { headers, cache: "no-store", redirect: "error", signal: AbortSignal.timeout(TIMEOUT) };
      const response = await fetch("agent", options);
      if (response.status === 401) {
        askForToken();
        return;
      }
      reason = response.ok ? "The answer of the service is not valid" : `The service returned an error (${response.status})`;
      if (!response.ok) throw new Error(reason);
      show(await response.json());
      failures = 0;
      lost = null;
      // Poll a slow service less often.
      wait = Math.max(INTERVAL, 10 * (performance.now() - started));
    } catch {
      wait = Math.min(LONGEST_INTERVAL, INTERVAL * 2 ** failures++);
      lost ??= clock(Date.now() / 1000);
      status("lost", `${reason} since ${lost}; still trying.`);
    } finally {
      polling = false;
      if (wait !== null) timer = setTimeout(poll, wait);
    }
  }

  function askForToken() {
    say(byId("ask-why"), token ? "The token was not accepted." : "");
    status("locked", "token required");
    say(byId("summary"), "Enter the token to see the agent.");
    byId("content").hidden = true;
    byId("ask").hidden = false;
    byId("token").value = "";
    byId("token").focus();
  }

  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    const given = byId("token").value.trim();
    if (!/^[\x21-\x7e]+$/.test(given)) {
      say(byId("ask-why"), "A token consists of ASCII characters without spaces.");
      return;
    }
    token = storedToken(given) || given;
    poll();
  });

  byId("retry").addEventListener("click", poll);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) poll();
    else if (lost === null && !byId("content").hidden) status("paused", "paused");
  });

  function show(beliefs) {
    const { agent, signal } = beliefs;
    document.title = `${agent.class} · switchmdp`;
    say(byId("name"), agent.class);
    const parameters = Object.entries(agent.parameters).map(([name, value]) => `${name}\u00a0${Number.isInteger(value) ? whole(value) : value}`);
    const sizes = [counted(agent.states, "state"), counted(agent.actions, "action")];
    say(byId("summary"), [...sizes, ...parameters].join(" · "));
    byId("ask").hidden = true;
    byId("content").hidden = false;
    curve.show(beliefs.rewards, beliefs.alerts);
    byId("trailing-name").textContent = `trailing mean, over about ${whole(curve.size * Math.max(1, curve.lag))}`;
    byId("bucket-name").textContent = curve.size === 1 ? "each feedback" : `mean of every ${whole(curve.size)}`;
    showFacts(beliefs);
    showSignal(signal);
    showAlerts(beliefs.alerts);
    showMemory(beliefs.memory);
    table.show(beliefs);
    showNotes(beliefs);
    quiet = false;
    const age = known(beliefs.at) ? Date.now() / 1000 - beliefs.at : null;
    status("live", age === null || age < 60 ? "live" : `live; nothing new for ${duration(age)}`);
  }

  function fact(name, value, note = "") {
    if (!facts.has(name)) {
      const parts = { value: element("span"), note: element("small") };
      byId("facts").append(element("div", {}, element("dt", {}, name), element("dd", {}, parts.value, parts.note)));
      facts.set(name, parts);
    }
    say(facts.get(name).value, value);
    say(facts.get(name).note, note);
  }

  function showFacts({ counters, episode, gain, mode, shadow, at }) {
    const now = curve.latest;
    fact("Reward rate", now ? decimal(now.trailing) : "–", now ? `mean of the last ${whole(now.over)}` : "no feedback yet");
    fact("Gain of the plan", decimal(gain), known(gain) ? "according to its own model" : "no plan yet");
    fact("Feedback counted", whole(counters.counted), known(at) ? `last event ${clock(at)}` : "");
    fact("Decisions made", whole(counters.decided), `${counted(counters.sessions, "session")}`);
    fact("Waiting for feedback", whole(counters.pending), `${whole(counters.expired)} expired`);
    if (known(episode)) fact("Episode", whole(episode.number), `since step ${whole(episode.start)}`);
    const [who, note] = MODES[mode] ?? [mode, ""];
    const agreed = known(shadow.agreement) ? `agent agrees in ${percent(shadow.agreement)} of ${whole(shadow.compared)}` : note;
    fact("Who chooses", who, agreed);
  }

  function meter(node, value, top, text) {
    const bar = node.firstChild ?? node.appendChild(element("i"));
    bar.style.width = `${100 * clamp(value / top, 0, 1)}%`;
    const values = { valuemin: 0, valuemax: top, valuenow: clamp(value, 0, top), valuetext: text };
    for (const [name, each] of Object.entries(values)) node.setAttribute(`aria-${name}`, each);
  }

  const subject = ({ state, action, next_state: next }) =>
    next === null ? `the reward of action ${action} in state ${state}` : `moving from state ${state} by action ${action} to state ${next}`;
  const difference = ({ next_state: next, before, now }) =>
    next === null ? `from ${decimal(before)} to ${decimal(now)}` : `from ${percent(before)} to ${percent(now)}`;

  function showSignal({ latest, threshold, fires, window }) {
    const strength = latest?.strength ?? 0;
    const verdict = fires ? "A change is likely" : known(latest) ? "No sign of a change" : "Not enough data to compare";
    byId("signal").classList.toggle("fires", fires);
    meter(byId("signal"), strength, 2 * threshold, `${decimal(strength)} of ${threshold}: ${verdict}`);
    say(byId("signal-text"), `${fires ? "▲ " : ""}${verdict}${known(latest) ? ` (${decimal(strength)}; the alert is at ${threshold})` : ""}.`);
    const note = known(latest) ? `Strongest, at feedback ${whole(latest.step)}: ${subject(latest)}, ${difference(latest)}. ` : "";
    say(byId("signal-note"), `${note}Compares the last ${counted(window, "feedback event")} with those before.`);
  }

  function showAlerts(alerts) {
    const list = byId("alerts");
    const key = JSON.stringify(alerts);
    if (list.dataset.shown === key) return;
    list.dataset.shown = key;
    list.setAttribute("aria-live", quiet ? "off" : "polite");
    const item = (alert) => element(
      "li", {},
      element("b", {}, `▲ Feedback ${whole(alert.step)}`),
      element("span", {}, ` (${clock(curve.momentOf(alert.step))}): ${subject(alert)}, ${difference(alert)}; strength ${decimal(alert.strength)}.`),
    );
    const none = element("li", { class: "soft" }, "None so far.");
    list.replaceChildren(...(alerts.length ? [...alerts].reverse().map(item) : [none]));
  }

  function showMemory({ window, remembered: steps }) {
    const bounded = known(window) && known(steps);
    byId("window").hidden = !bounded;
    if (bounded) meter(byId("window"), steps, window, `${whole(steps)} of ${whole(window)} steps`);
    const share = bounded ? `Window: ${whole(steps)} of ${whole(window)} steps, ${percent(steps / window)} full.` : "";
    const all = known(steps) ? `${counted(steps, "step")} remembered; no window.` : "This agent does not report its memory.";
    say(byId("window-text"), share || all);
  }

  function showNotes(beliefs) {
    const pairs = beliefs.states.flatMap((row) => row.actions);
    const dots = "Each bar runs from 0 to 1: the dot is the estimated mean reward";
    const bands = pairs.some((pair) => known(pair.low)) ? ", the band its confidence interval." : "; this agent has no confidence intervals.";
    const bars = pairs.some((pair) => known(pair.low) || known(pair.estimate)) ? `${dots}${bands}` : "This agent has no estimates of mean rewards yet.";
    const marks = known(beliefs.fixed_policy) ? "▶ is the agent’s choice, ■ the fixed policy’s." : "▶ marks the agent’s choice.";
    say(byId("policy-note"), `${marks} ${bars} Actions that were not tried for a long time fade.`);
    const more = beliefs.more_states;
    say(byId("more"), more ? `The ${counted(beliefs.states.length, "state")} visited most; ${whole(more)} more are not shown.` : "");
  }

  poll();
})();
