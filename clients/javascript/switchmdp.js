/**
 * A client of the switchmdp decision service, for browsers and for Node 18 or newer.
 * One file without dependencies.
 *
 *     import { Client } from "./switchmdp.js";
 *
 *     const client = new Client("http://localhost:8000");
 *     await client.createModel("shop", { states: ["new", "basket"], actions: ["sport", "voucher"] });
 *     const decision = await client.decide("shop", { state: "new", session: "ann" });
 *     console.log(decision.action_name);
 *     await client.feedback("shop", decision, { reward: 1, nextState: "basket" });
 *
 * Results are the JSON objects of the service; `/docs` of the service describes their members.
 * States and actions are numbers or, if the model has names, names.
 *
 * Failed calls are retried. A failure may leave open whether the service has executed the call. So
 * decisions carry an `Idempotency-Key`, which all tries of a call share, and feedback names its
 * decision: repeating them does no harm. Calls that must not be executed twice (creating and
 * deleting models, restarting) are retried only after a refusal (429, 503).
 *
 * Arguments that cannot be sent raise a TypeError, before anything is sent.
 */

/** The base class of the client's errors. */
export class ServiceError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = this.constructor.name;
  }
}

/** The service did not answer, after all retries. `cause` is the error of `fetch`. */
export class ConnectionFailed extends ServiceError {}

/** The answer is not one of the decision service; the URL may be wrong. */
export class UnexpectedAnswer extends ServiceError {}

/**
 * The service refused a call. `status` is the HTTP status; `type`, `title`, `detail` and
 * `extensions` are the problem details of RFC 9457; `retryAfter` is in seconds, or null.
 */
export class Problem extends ServiceError {
  constructor(status, content = {}, retryAfter = null) {
    const { type = "about:blank", title = "", detail = "", status: _, ...extensions } = content;
    super([`${status} ${title}`.trim(), detail].filter(Boolean).join(": "));
    Object.assign(this, { status, type, title, detail, extensions, retryAfter });
  }
}
export class BadRequest extends Problem {}
export class Unauthorized extends Problem {}
export class Forbidden extends Problem {}
export class NotFound extends Problem {}
export class Conflict extends Problem {}
export class Expired extends Problem {}
export class Invalid extends Problem {}
export class TooManyRequests extends Problem {}
export class Unavailable extends Problem {}
export class ServiceFailed extends Problem {}

const BY_STATUS = {
  401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 410: Expired, 422: Invalid,
  429: TooManyRequests, 502: Unavailable, 503: Unavailable, 504: Unavailable,
};

function problem(status, content, retryAfter = null) {
  const kind = BY_STATUS[status] ?? (status < 500 ? BadRequest : ServiceFailed);
  return new kind(status, content, retryAfter);
}

const REFUSED = new Set([429, 503]);
const UNCERTAIN = new Set([502, 504]); // of a proxy: the service may have executed the call
const COMPILING = 300; // seconds: without prebuilt machine code, a new kind of agent is compiled first

export class Client {
  #url;
  #headers;
  #timeout;
  #retries;

  /**
   * @param {string} url  The address of the service; "" for the origin of the page.
   * @param {object} [options]
   * @param {string} [options.token]  The bearer token. Never ship a token in a public page.
   * @param {number} [options.timeout]  Seconds that one try may take; creating a model may take longer.
   * @param {number} [options.retries]  The number of retries after the first try.
   * @param {number} [options.firstPause]  The upper limit of the first pause, in seconds.
   * @param {number} [options.longestPause]  The upper limit of all pauses, in seconds.
   */
  constructor(url, { token, timeout = 10, retries = 5, firstPause = 0.1, longestPause = 10 } = {}) {
    check(/^(https?:\/\/[^/?#\s].*|\/.*)?$/.test(url), "url", url, "an address such as http://localhost:8000");
    check(!token || /^[!-~]+$/.test(token), "token", "another text", "ASCII characters without spaces");
    this.#url = url.replace(/\/+$/, "");
    this.#headers = { Accept: "application/json" };
    if (token) this.#headers.Authorization = `Bearer ${token}`;
    this.#timeout = timeout;
    this.#retries = { most: retries, first: firstPause, longest: longestPause };
  }

  /**
   * Create a model. `states` and `actions`: how many there are, or their names. Optional: `agent`
   * (by default EvidencePSRL), its `parameters`, `labels`, `replan` and `expiry`.
   */
  createModel(name, settings) {
    return this.#once("POST", "/models", { name, ...settings }, COMPILING);
  }

  /** Some models, ordered by name: { models, next }. Pass `next` as `after` to get more. */
  models({ after, limit, search, archived } = {}) {
    return this.#send("GET", `/models${query({ after, limit, search, archived })}`);
  }

  /** All models, ordered by name; they are requested page by page. */
  async *allModels({ search, archived } = {}) {
    for (let after; after !== null; ) {
      const page = await this.models({ after, search, archived });
      yield* page.models;
      after = page.next ?? null;
    }
  }

  /** One model. */
  model(name) {
    return this.#send("GET", path(name));
  }

  /** Delete a model with all its data. This cannot be undone. */
  deleteModel(name) {
    return this.#once("DELETE", path(name));
  }

  /** Archive a model: it is no longer listed and makes no decisions, but keeps its data. */
  archiveModel(name) {
    return this.#send("POST", `${path(name)}/archive`);
  }

  /** Make an archived model active again. */
  unarchiveModel(name) {
    return this.#send("POST", `${path(name)}/unarchive`);
  }

  /** Add states: how many, or their names. `available`: their actions, by default all. */
  addStates(name, states, { available, key = newKey() } = {}) {
    return this.#keyed(key, `${path(name)}/states`, { ...added(states), available });
  }

  /** Add actions: how many, or their names. `states`: those that have them, by default all. */
  addActions(name, actions, { states, key = newKey() } = {}) {
    return this.#keyed(key, `${path(name)}/actions`, { ...added(actions), states });
  }

  /** Set who decides: "agent", or a policy with an action for each state ("fixed", "shadow"). */
  setMode(name, mode, policy) {
    return this.#send("POST", `${path(name)}/mode`, { mode, policy });
  }

  /** Forget everything that the model has learned, after a known change. */
  restart(name) {
    return this.#once("POST", `${path(name)}/restart`);
  }

  /**
   * Request a decision: { id, action, action_name, state, session, arm, probability }.
   * `state`: by default the current state of the session; required without one. `available`: the
   * actions that can be taken now. `key`: two calls with the same idempotency key return the same decision.
   */
  decide(name, { state, session, available, key = newKey(), ...others } = {}) {
    known(others, "state, session, available and key");
    return this.#keyed(key, `${path(name)}/decisions`, { state, session, available });
  }

  /**
   * Report the outcome of a decision, or of its id. Returns true if the model has learned from it,
   * false if it was reported before.
   */
  async feedback(name, decision, { reward, nextState, ...others } = {}) {
    known(others, "reward and nextState");
    const { id, ...body } = report({ decision, reward, nextState });
    return counted(await this.#send("POST", `${path(name)}/decisions/${encodeURIComponent(id)}/feedback`, body));
  }

  /**
   * Request up to 1000 decisions in one transaction: a list of { state, session, available }.
   * Returns for each request its decision, or the `Problem` that `decide` would have thrown.
   */
  async decideBatch(name, requests, { key = newKey() } = {}) {
    const decisions = requests.map(({ state, session, available, ...others }) => {
      known(others, "state, session and available");
      return { state, session, available };
    });
    const body = { decisions };
    const answer = await this.#keyed(key, `${path(name)}/decisions/batch`, body);
    return results(answer, requests.length, (result) => result.decision);
  }

  /**
   * Report up to 1000 outcomes in one transaction: a list of { decision, reward, nextState }.
   * Returns for each report true, false or the `Problem` that `feedback` would have thrown.
   */
  async feedbackBatch(name, reports) {
    const answer = await this.#send("POST", `${path(name)}/feedback/batch`, { feedback: reports.map(report) });
    return results(answer, reports.length, counted);
  }

  /** What a model knows about each action in a state, and what it would choose. */
  explain(name, state) {
    return this.#send("GET", `${path(name)}/explain${query({ state })}`);
  }

  /**
   * Set the arms of a split test besides `main`, the model's own agent: a list of
   * { name, share, policy } or { name, share, agent: { name, parameters } }.
   */
  setArms(name, arms) {
    return this.#send("PUT", `${path(name)}/arms`, arms);
  }

  /** The arms of a split test, with their decisions and mean rewards. */
  arms(name) {
    return this.#send("GET", `${path(name)}/arms`);
  }

  /** Rewards over time in at most that many buckets, and detected changes. */
  history(name, { buckets } = {}) {
    return this.#send("GET", `${path(name)}/history${query({ buckets })}`);
  }

  /** Whether the service is ready for decisions. Throws `Unavailable` if it stays unready. */
  async isReady() {
    await this.#send("GET", "/readyz");
    return true;
  }

  #keyed(key, where, body) {
    check(/^[!-~]([ -~]{0,198}[!-~])?$/.test(key), "key", key, "a text of 1 to 200 ASCII characters");
    return this.#send("POST", where, body, { "Idempotency-Key": key });
  }

  #once(method, where, body, timeout = this.#timeout) {
    return this.#send(method, where, body, {}, { repeatable: false, timeout });
  }

  async #send(method, where, body, headers = {}, { repeatable = true, timeout = this.#timeout } = {}) {
    // Browsers may store answers, even some errors (410), and give them again.
    const request = { method, headers: { ...this.#headers, ...headers }, cache: "no-store" };
    if (body !== undefined) {
      request.body = JSON.stringify(body);
      request.headers["Content-Type"] = "application/json";
    }
    for (let tries = 1; ; tries++) {
      let answer, text, pause;
      try {
        const signal = AbortSignal.timeout(1000 * timeout);
        answer = await fetch(this.#url + where, { ...request, signal });
        text = await answer.text();
      } catch (cause) {
        pause = repeatable ? this.#pause(tries) : null;
        if (pause === null) {
          const message = `${method} ${this.#url}${where} failed after ${tries} ${tries === 1 ? "try" : "tries"}`;
          const reason = cause.cause?.message || cause.message; // Node says why in the inner error
          throw new ConnectionFailed(`${message}: ${reason}; is the service running at this address?`, { cause });
        }
        await sleep(pause);
        continue;
      }
      const retryAfter = secondsToWait(answer.headers.get("Retry-After"));
      const retried = REFUSED.has(answer.status) || (repeatable && UNCERTAIN.has(answer.status));
      pause = retried ? this.#pause(tries, retryAfter) : null;
      if (pause === null) return read(answer, text, `${method} ${this.#url}${where}`, retryAfter);
      await sleep(pause);
    }
  }

  /** Seconds to wait after that many tries; null to give up. Pauses are random ("full jitter"). */
  #pause(tries, retryAfter = null) {
    const { most, first, longest } = this.#retries;
    if (tries > most || (retryAfter ?? 0) > longest) return null;
    const limit = Math.min(longest, first * 2 ** (tries - 1));
    return Math.max(Math.random() * limit, retryAfter ?? 0);
  }
}

function read(answer, text, what, retryAfter) {
  let content = null;
  try {
    content = text ? JSON.parse(text) : null;
  } catch {
    if (answer.ok) throw new UnexpectedAnswer(`the answer to ${what} is not JSON; is this the address of the service?`);
  }
  if (answer.ok) return content;
  const details = content !== null && typeof content === "object" ? content : { title: answer.statusText, detail: text.slice(0, 200) };
  throw problem(answer.status, details, retryAfter);
}

function results(answer, count, readResult) {
  const found = answer?.results;
  if (!Array.isArray(found) || found.length !== count) {
    throw new UnexpectedAnswer(`expected ${count} results, got ${JSON.stringify(answer)}`);
  }
  return found.map((result) => (result.problem ? problem(result.problem.status, result.problem) : readResult(result)));
}

function counted(content) {
  if (typeof content?.counted !== "boolean") {
    throw new UnexpectedAnswer(`expected whether the feedback was counted, got ${JSON.stringify(content)}`);
  }
  return content.counted;
}

function report({ decision, reward, nextState, ...others }) {
  known(others, "decision, reward and nextState");
  const id = decision?.id ?? decision;
  check(typeof id === "string" && id !== "", "decision", decision, "a decision or its id");
  check(Number.isFinite(reward), "reward", reward, "a finite number from 0 to 1"); // JSON has no NaN
  return { id, reward, next_state: nextState };
}

/** Refuse an argument that cannot be sent. */
function check(isValid, field, value, allowed) {
  if (!isValid) throw new TypeError(`${field} must be ${allowed}, got ${String(value)}`);
}

/** Refuse members with other names, such as a misspelt one. */
function known(others, allowed) {
  const [name] = Object.keys(others);
  check(name === undefined, "every member", name, `one of ${allowed}`);
}

function added(given) {
  return typeof given === "number" ? { count: given } : { names: given };
}

function path(name) {
  check(typeof name === "string" && /[^.]/.test(name), "name", name, "the name of a model");
  return `/models/${encodeURIComponent(name)}`;
}

function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

function newKey() {
  // Unlike randomUUID, this works without HTTPS. Node 18 has no global crypto; keys need not be secret.
  const bytes = new Uint8Array(16);
  if (globalThis.crypto) crypto.getRandomValues(bytes);
  else bytes.forEach((_, i) => (bytes[i] = 256 * Math.random()));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The value of a `Retry-After` header: seconds, or a date; null if it is neither. */
function secondsToWait(header) {
  if (header === null) return null;
  if (/^\s*\d+\s*$/.test(header)) return Number(header);
  const date = Date.parse(header);
  return Number.isNaN(date) ? null : Math.max(0, (date - Date.now()) / 1000);
}

function sleep(seconds) {
  return new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
}
