// Numbers with the units people write, and small pieces of the document.

const digits = new Intl.NumberFormat("en");
const powers = ["", "k", "M", "G", "T", "P"];

// Three digits: 9.41, 12.3, 640.
function short(value) {
  if (value >= 99.95) return value.toFixed(0);
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

export function rate(bits) {
  let value = Number(bits) || 0;
  if (value < 1) return "0";
  let power = 0;
  while (value >= 999.5 && power < powers.length - 1) {
    value /= 1000;
    power++;
  }
  return `${short(value)} ${powers[power]}bit/s`;
}

export function bytes(count) {
  let value = Number(count) || 0;
  let power = 0;
  while (value >= 1023.5 && power < powers.length - 1) {
    value /= 1024;
    power++;
  }
  return power ? `${short(value)} ${powers[power].toUpperCase()}iB` : `${value} B`;
}

export function seconds(value) {
  if (!(value > 0)) return "–";
  if (value < 0.0009995) return `${short(value * 1e6)} µs`;
  if (value < 0.9995) return `${short(value * 1000)} ms`;
  return value < 120 ? `${short(value)} s` : age(value);
}

// How long something has been going on.
export function age(value) {
  const s = Math.max(0, Math.round(value));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function count(value) {
  return digits.format(Number(value) || 0).replaceAll(",", "\u202f");
}

export function percent(part) {
  return `${Math.round(100 * part)} %`;
}

// With month and day, where it was another.
export function clock(time) {
  const then = new Date(1000 * time);
  const hour = then.toLocaleTimeString([], {hour12: false});
  const day = then.toLocaleDateString("sv"); // as 2026-01-31
  return day === new Date().toLocaleDateString("sv") ? hour : `${day.slice(5)} ${hour.slice(0, 5)}`;
}

export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

// Of a link or interface: 0 to 1, whatever is reported.
export function part(used, all) {
  return all > 0 ? Math.min(1, Math.max(0, used / all)) : 0;
}

// The colours of use are classes use-0 (idle) to use-9 (full), so that the style sheet has them for light and dark.
export function useClass(use) {
  return `use-${use <= 0.005 ? 0 : Math.min(9, 1 + Math.floor(use * 9))}`;
}

const svgSpace = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function shape(name, attributes = {}, ...children) {
  return fill(document.createElementNS(svgSpace, name), attributes, children);
}

// Touches the document only where something changes: a thousand cells a second are then cheap.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}
