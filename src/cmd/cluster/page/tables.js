// Tables whose rows stay while their values change: sorted by a click on a column, filtered, at most so many at once.
import {element, shape, setText, setAttribute, plural} from "/units.js";

const FIRST_ROWS = 100;
const collator = new Intl.Collator("en", {numeric: true}); // localeCompare makes one for each pair
const SPARK_WIDTH = 110, SPARK_HEIGHT = 20;

// A column: {name, title, number (right-aligned), value(row) to sort by, text(row), make() and change(node, row) where it is more than text}
export class Table {
  constructor(table, columns, options) {
    this.columns = columns;
    this.key = options.key;
    this.order = options.order; // {column, down}
    this.count = options.count; // where it says how many are shown
    this.all = options.all; // the button that shows the rest
    this.chosen = options.chosen || (() => false);
    this.what = options.what; // "job"
    this.rows = new Map();
    this.shown = []; // in the order of the table
    this.showAll = false;
    this.head = element("tr");
    this.body = element("tbody");
    columns.forEach((column) => this.head.append(this.heading(column)));
    table.replaceChildren(element("thead", {}, this.head), this.body);
    this.all?.addEventListener("click", () => {
      this.showAll = !this.showAll;
      this.show(this.last);
    });
  }

  heading(column) {
    const button = element("button", {type: "button", title: column.title || ""}, column.name);
    button.addEventListener("click", () => {
      const down = this.order.column === column ? !this.order.down : Boolean(column.number);
      this.order = {column, down};
      this.show(this.last);
    });
    return element("th", {scope: "col", class: column.number ? "number" : null}, button);
  }

  // `rows` are those that the filter left, of `total`.
  show(rows, total = this.total) {
    this.last = rows;
    this.total = total;
    this.markOrder();
    const sorted = [...rows].sort((a, b) => this.compare(a, b));
    const shown = this.showAll ? sorted : sorted.slice(0, FIRST_ROWS);
    this.shown = shown;
    this.fill(shown);
    this.say(shown.length, rows.length, total);
  }

  none(total) {
    return total ? `None of ${plural(total, this.what)} matches.` : `No ${this.what}s.`;
  }

  markOrder() {
    this.columns.forEach((column, i) => {
      const sorted = column === this.order.column ? (this.order.down ? "descending" : "ascending") : "none";
      setAttribute(this.head.children[i], "aria-sort", sorted);
    });
  }

  compare(a, b) {
    const {column, down} = this.order;
    const x = column.value(a), y = column.value(b);
    const way = typeof x === "string" ? collator.compare(x, y) : x - y;
    return (down ? -way : way) || collator.compare(this.key(a), this.key(b));
  }

  // Moves only the rows that are out of place.
  fill(shown) {
    const stay = new Set(shown.map(this.key));
    for (const [key, row] of this.rows) {
      if (stay.has(key)) continue;
      row.node.remove();
      this.rows.delete(key);
    }
    let at = this.body.firstChild;
    for (const value of shown) {
      const row = this.row(value);
      this.change(row, value);
      if (row.node === at) at = at.nextSibling;
      else this.body.insertBefore(row.node, at);
    }
  }

  row(value) {
    const key = this.key(value);
    if (!this.rows.has(key)) {
      const cells = this.columns.map((column) => column.make ? column.make(value) : document.createTextNode(""));
      const holders = this.columns.map((column, i) => element(i === 0 ? "th" : "td",
        {class: column.number ? "number" : null, scope: i === 0 ? "row" : null}, cells[i]));
      this.rows.set(key, {node: element("tr", {}, ...holders), cells});
    }
    return this.rows.get(key);
  }

  change(row, value) {
    this.columns.forEach((column, i) => {
      if (column.change) column.change(row.cells[i], value);
      else setText(row.cells[i], column.text(value));
    });
    setAttribute(row.node, "class", this.chosen(value) ? "is-chosen" : "");
  }

  say(shown, left, total) {
    if (!this.count) return;
    const matching = left < total ? ` that match, of ${total}` : "";
    setText(this.count, left === 0 ? this.none(total) : `${shown < left ? `${shown} of ` : ""}${plural(left, this.what)}${matching}`);
    this.all.hidden = left <= FIRST_ROWS;
    setText(this.all, this.showAll ? `Show ${FIRST_ROWS}` : `Show all ${left}`);
  }
}

// --- sparklines ---

// The last values, one a poll.
export class Past {
  constructor(most) {
    this.most = most;
    this.values = new Map();
  }

  note(key, value) {
    if (!this.values.has(key)) this.values.set(key, []);
    const values = this.values.get(key);
    values.push(value);
    if (values.length > this.most) values.shift();
  }

  keep(keys) {
    for (const key of this.values.keys()) if (!keys.has(key)) this.values.delete(key);
  }

  get(key) {
    return this.values.get(key) || [];
  }
}

export function makeSpark() {
  return shape("svg", {class: "spark", width: SPARK_WIDTH, height: SPARK_HEIGHT, "aria-hidden": "true"}, shape("polyline"));
}

// From 0 to a little above the highest value.
export function drawSpark(svg, values, most) {
  const top = Math.max(...values, 0) * 1.1 || 1;
  const step = SPARK_WIDTH / Math.max(1, most - 1);
  const from = SPARK_WIDTH - (values.length - 1) * step;
  const points = values.map((v, i) => `${(from + i * step).toFixed(1)},${(SPARK_HEIGHT - 1 - (v / top) * (SPARK_HEIGHT - 2)).toFixed(1)}`);
  setAttribute(svg.firstChild, "points", points.join(" "));
}

// --- bars ---

// A bar of what is in use, with a text beside it.
export function makeBar() {
  return element("span", {class: "bar"}, shape("svg", {width: 60, height: 8, "aria-hidden": "true"},
    shape("rect", {width: 60, height: 8, rx: 2, class: "bar-all"}), shape("rect", {height: 8, rx: 2, class: "use-fill use-0"})),
  element("span", {}, ""));
}

export function drawBar(node, use, className, text) {
  const bar = node.firstChild.lastChild;
  setAttribute(bar, "width", (60 * use).toFixed(1));
  setAttribute(bar, "class", `use-fill ${className}`);
  setText(node.lastChild, text);
}
