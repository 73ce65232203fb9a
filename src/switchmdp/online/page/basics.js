/* Elements and numbers. Data from the service is inserted only as text nodes, attribute values and
   lengths, never as markup. */

const byId = (id) => document.getElementById(id);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const known = (value) => value !== null && value !== undefined;

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const element = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);
const drawn = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

/* Set the text of a node. Unchanged text is not set again, so a screen reader does not repeat it. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const whole = (n) => (known(n) ? String(n).replace(/\B(?=(\d{3})+$)/g, "\u00a0") : "–");
const counted = (n, one, many = `${one}s`) => `${whole(n)}\u00a0${n === 1 ? one : many}`;

/* Rewards lie in [0, 1]: two decimal places, or two significant digits for small values. */
function decimal(value) {
  if (!known(value)) return "–";
  return value !== 0 && Math.abs(value) < 0.1 ? String(Number(value.toPrecision(2))) : value.toFixed(2);
}

const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)}\u00a0%`;

function duration(seconds) {
  if (seconds < 1) return "under 1\u00a0s";
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const [unit, size] = units.find(([, length]) => seconds >= length);
  return `${Math.floor(seconds / size)}\u00a0${unit}`;
}

/* A time as text. The precision depends on the `span` of time that is shown, in seconds. */
function clock(at, span = 0) {
  const date = new Date(1000 * at);
  const two = (n) => String(n).padStart(2, "0");
  if (span > 36 * 3600) return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  const minutes = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return span > 600 ? minutes : `${minutes}:${two(date.getSeconds())}`;
}

/* Round numbers from 0 to `top`: about `most` of them, at least `least` apart. */
function ticks(top, most, least = 0) {
  const rough = top / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(least, power * [1, 2, 5, 10].find((n) => n * power >= rough * 0.999));
  return Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, i) => i * step);
}
