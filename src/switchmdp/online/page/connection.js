/* Requests to the service, with the token of the user. */

const TIMEOUT = 10000; // milliseconds

/* An answer other than 2xx. */
class Refused extends Error {
  constructor(status, detail) {
    super(detail || `The service returned an error (${status})`);
    this.status = status;
  }
}

function storedToken(value) {
  try {
    if (value !== undefined) sessionStorage.setItem("token", value);
    return sessionStorage.getItem("token") ?? "";
  } catch {
    return value ?? ""; // storage is disabled: after a reload the user has to enter the token again
  }
}

const connection = {
  token: storedToken(),

  /* The JSON at a path. Raises `Refused`; any other error: it cannot be reached, or is not valid. */
  async get(path) {
    const headers = this.token ? { Authorization: `Bearer ${this.token}` } : {};
    const options = { headers, cache: "no-store", redirect: "error", signal: AbortSignal.timeout(TIMEOUT) };
    const response = await fetch(path, options);
    if (!response.ok) {
      const problem = await response.json().catch(() => ({}));
      const isAboutTheRequest = [403, 404, 422].includes(response.status);
      throw new Refused(response.status, isAboutTheRequest ? problem?.detail : "");
    }
    try {
      return await response.json();
    } catch {
      throw new Refused(200, "The answer of the service is not valid");
    }
  },

  setToken(given) {
    this.token = storedToken(given) || given;
  },
};

const pathOf = (model) => `models/${encodeURIComponent(model)}`;
