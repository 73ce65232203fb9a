/* Shows the list of models, or one model (#/models/NAME), and polls the service while it is visible. */
(() => {
  const INTERVAL = { list: 5000, model: 1000 }; // milliseconds from a response to the next request
  const LONGEST_INTERVAL = 30000;
  const list = new ModelList(() => poll());
  const model = new ModelView(() => poll());
  let timer = 0;
  let request = 0; // the number of the latest request; older ones are not shown
  let failures = 0;
  let lost = null; // the time since which the service cannot be reached
  let only = null; // the name of the only model, which is shown if the address names none

  function status(name, text) {
    document.body.dataset.status = name;
    say(byId("status-text"), text);
    byId("retry").hidden = name !== "lost";
  }

  /* The model that the address names; null for the list. */
  function addressed() {
    const found = /^#\/models\/(.+)$/.exec(location.hash);
    try {
      return found ? decodeURIComponent(found[1]) : null;
    } catch {
      return found[1]; // an address that was cut off in a name
    }
  }

  async function wanted() {
    if (addressed() !== null || location.hash) return addressed();
    if (only === null) {
      const { models, next } = await connection.get("models?limit=2");
      if (models.length === 1 && next === null) only = models[0].name;
    }
    return only;
  }

  async function poll() {
    clearTimeout(timer);
    if (document.hidden) return;
    const mine = ++request;
    const started = performance.now();
    let wait = null;
    try {
      const name = await wanted();
      if (name !== null) model.open(name);
      const show = await (name === null ? list : model).load();
      if (mine !== request) return;
      open(name === null ? "list" : "content");
      status("live", show() ?? "live");
      failures = 0;
      lost = null;
      // Poll a slow service less often.
      wait = Math.max(name === null ? INTERVAL.list : INTERVAL.model, 10 * (performance.now() - started));
    } catch (error) {
      if (mine !== request) return;
      if (error.status === 401) {
        askForToken();
        return;
      }
      const reason = error instanceof Refused ? error.message : failed(error);
      wait = Math.min(LONGEST_INTERVAL, 1000 * 2 ** failures++);
      lost ??= clock(Date.now() / 1000);
      const since = error.status === 403 || error.status === 404 ? "." : ` since ${lost}; still trying.`;
      status("lost", reason + since);
    } finally {
      if (wait !== null) timer = setTimeout(poll, wait);
    }
  }

  /* Requests fail with a TypeError or a time-out; anything else means that the data makes no sense. */
  const failed = (error) =>
    error instanceof DOMException || (error instanceof TypeError && /fetch/i.test(error.message))
      ? "The service cannot be reached" : "The answer of the service is not valid";

  function open(view) {
    byId("ask").hidden = true;
    byId("list").hidden = view !== "list";
    byId("content").hidden = view !== "content";
    byId("back").hidden = view !== "content";
  }

  function askForToken() {
    say(byId("ask-why"), connection.token ? "The token was not accepted." : "");
    status("locked", "token required");
    say(byId("summary"), "Enter the token to see the models.");
    open("");
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
    connection.setToken(given);
    poll();
  });

  byId("retry").addEventListener("click", poll);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) poll();
    else if (lost === null && byId("ask").hidden) status("paused", "paused");
  });
  addEventListener("hashchange", async () => {
    await poll();
    byId("name").focus(); // a screen reader reads the new title
    scrollTo(0, 0);
  });

  poll();
})();
