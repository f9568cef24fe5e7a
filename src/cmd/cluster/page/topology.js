// The network as a drawing: made once for a topology and a width, then only coloured anew. Many hosts are gathered by
// rack, a small square each.
import {shape, setAttribute, useClass, rate, percent, part, plural} from "/units.js";

const MOST_SINGLE = 72; // hosts that are drawn one by one
const MARGIN = 26;
const LEVEL = 96; // pixels between layers
const ARCS = 104; // pixels below the hosts, for trees
export const TREE_COLOURS = 8;

const nameOf = (node) => (typeof node === "string" ? node : node.name);
const isSwitch = (node) => node.kind === "switch";
const wayOf = (from, to) => `${from}\n${to}`;

// --- places ---

// Where nodes are, in pixels.
class Places {
  constructor(topology, layout, width) {
    this.layered = layout.kind === "layers";
    this.width = width;
    this.nodes = topology.nodes.map((node) => (typeof node === "string" ? {name: node} : node));
    this.spots = new Map();
    const known = this.nodes.map((node) => layout.spots[node.name] || [0, 0]);
    const xs = known.map((spot) => spot[0]), ys = known.map((spot) => spot[1]);
    const least = [Math.min(...xs), Math.min(...ys)];
    const span = [Math.max(...xs) - least[0], Math.max(...ys) - least[1]];
    const scale = this.scales(span, new Set(ys).size);
    this.nodes.forEach((node, i) => this.spots.set(node.name, {
      x: span[0] > 0 ? MARGIN + this.left + (known[i][0] - least[0]) * scale[0] : width / 2,
      y: MARGIN + 14 + (known[i][1] - least[1]) * scale[1],
    }));
    this.floor = Math.max(...[...this.spots.values()].map((spot) => spot.y));
  }

  // Layers fill the width and are evenly apart; other drawings keep their shape.
  scales(span, levels) {
    const room = this.width - 2 * MARGIN;
    this.left = 0;
    if (this.layered) {
      const used = Math.min(room, 130 * this.nodes.length);
      this.left = (room - used) / 2;
      return [used / (span[0] || 1), (LEVEL * (levels - 1)) / (span[1] || 1)];
    }
    const scale = Math.min(room / (span[0] || 1), 520 / (span[1] || 1));
    this.left = (room - span[0] * scale) / 2;
    return [scale, scale];
  }
}

// Hosts by the switches they are at; null where they are few or not at switches.
function gather(places, links) {
  const hosts = places.nodes.filter((node) => !isSwitch(node));
  if (!places.layered || hosts.length <= MOST_SINGLE) return null;
  const kinds = new Map(places.nodes.map((node) => [node.name, isSwitch(node)]));
  const switches = new Map(hosts.map((host) => [host.name, []]));
  for (const link of links) {
    if (switches.has(link.a) && kinds.get(link.b)) switches.get(link.a).push(link.b);
    if (switches.has(link.b) && kinds.get(link.a)) switches.get(link.b).push(link.a);
  }
  const racks = new Map();
  for (const host of hosts) {
    const at = [...new Set(switches.get(host.name))];
    const key = at.join("\n");
    if (!racks.has(key)) racks.set(key, {at, hosts: []});
    racks.get(key).hosts.push(host.name);
  }
  return [...racks.values()];
}

// A rack's hosts as a block of squares below its switch.
function placeRack(rack, places, room) {
  const n = rack.hosts.length;
  const x = rack.hosts.reduce((sum, host) => sum + places.spots.get(host).x, 0) / n;
  const columns = Math.max(1, Math.min(Math.round(Math.sqrt(n)), Math.floor(room / 5)));
  const cell = Math.min(14, Math.max(3, Math.floor(room / columns)));
  rack.cell = cell;
  rack.x = Math.round(x - (columns * cell) / 2);
  rack.y = places.floor;
  rack.width = columns * cell;
  rack.height = Math.ceil(n / columns) * cell;
  rack.hosts.forEach((host, i) => places.spots.set(host, {
    x: rack.x + (i % columns) * cell + cell / 2,
    y: rack.y + Math.floor(i / columns) * cell + cell / 2,
  }));
}

// --- the drawing ---

export class Network {
  constructor(container) {
    this.container = container;
    this.svg = shape("svg", {role: "img", "aria-label": "Network"});
    this.ways = new Map(); // from, to -> what is coloured
    this.hosts = new Map(); // name -> what is marked
    this.switches = new Map(); // the same of switches
    this.plan = null;
    container.replaceChildren(this.svg);
    new ResizeObserver(() => this.fit()).observe(container);
  }

  setTopology(topology, layout) {
    this.topology = topology;
    this.layout = layout;
    this.draw();
  }

  fit() {
    const width = this.container.clientWidth;
    if (this.topology && width && Math.abs(width - this.width) > 4) this.draw();
  }

  draw() {
    this.width = Math.max(280, this.container.clientWidth);
    this.places = new Places(this.topology, this.layout, this.width);
    this.ways.clear();
    this.hosts.clear();
    this.switches.clear();
    const links = this.topology.links;
    const racks = gather(this.places, links);
    this.lines = shape("g", {class: "links"});
    this.arcs = shape("g", {class: "arcs"});
    this.nodes = shape("g", {class: "nodes"});
    if (racks) racks.forEach((rack) => this.addRack(rack, (this.width - 2 * MARGIN) / racks.length - 4));
    const most = Math.max(...links.map((link) => this.capacity(link)));
    this.thick = racks || links.length > 150 ? 0.8 : 3;
    for (const link of links) this.addLink(link, most, racks !== null);
    this.addNodes(racks !== null);
    const below = racks ? Math.max(...racks.map((rack) => rack.height)) + 8 : this.slanted ? 52 : 32;
    this.hostFloor = this.places.floor + below;
    this.svg.replaceChildren(this.lines, this.nodes, this.arcs);
    this.makeRoom();
    if (this.state) this.update(this.state);
    this.choose(this.job, true);
  }

  // Below the hosts there is room for trees as long as there are jobs, so that choosing one moves nothing.
  makeRoom() {
    const arcs = this.places.layered && this.state?.jobs.length ? ARCS : 8;
    const height = this.hostFloor + arcs;
    setAttribute(this.svg, "viewBox", `0 0 ${this.width} ${height}`);
    setAttribute(this.svg, "width", this.width);
    setAttribute(this.svg, "height", height);
  }

  capacity(link) {
    const value = typeof link.capacity === "object" ? Math.max(link.capacity.ab, link.capacity.ba) : link.capacity;
    return Number(value) || 1;
  }

  // Both directions side by side, each on the right of who looks along it.
  addLink(link, most, gathered) {
    const a = this.places.spots.get(link.a), b = this.places.spots.get(link.b);
    if (!a || !b || (gathered && (this.hosts.has(link.a) || this.hosts.has(link.b)))) return;
    const width = 1.2 + this.thick * Math.sqrt(this.capacity(link) / most);
    const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
    const aside = {x: (-(b.y - a.y) / length) * (width / 2 + 0.6), y: ((b.x - a.x) / length) * (width / 2 + 0.6)};
    this.addWay(link.a, link.b, a, b, aside, 1, width);
    this.addWay(link.b, link.a, b, a, aside, -1, width);
  }

  addWay(from, to, a, b, aside, side, width) {
    const title = shape("title", {}, `${from} → ${to}`);
    const line = shape("line", {
      x1: (a.x + side * aside.x).toFixed(1), y1: (a.y + side * aside.y).toFixed(1),
      x2: (b.x + side * aside.x).toFixed(1), y2: (b.y + side * aside.y).toFixed(1),
      "stroke-width": width.toFixed(1), class: "use-0",
    }, title);
    this.lines.append(line);
    const key = wayOf(from, to);
    if (!this.ways.has(key)) this.ways.set(key, []);
    this.ways.get(key).push({node: line, title});
  }

  addRack(rack, room) {
    placeRack(rack, this.places, room);
    for (const at of rack.at) {
      const spot = this.places.spots.get(at);
      this.lines.append(shape("line", {x1: spot.x, y1: spot.y, x2: rack.x + rack.width / 2, y2: rack.y, class: "stub"}));
    }
    const size = rack.cell - 1;
    for (const host of rack.hosts) {
      const spot = this.places.spots.get(host);
      const title = shape("title", {}, host);
      const node = shape("rect", {x: spot.x - size / 2, y: spot.y - size / 2, width: size, height: size, rx: 1,
        class: "cell use-0"}, title);
      this.nodes.append(node);
      this.hosts.set(host, {node, title, gathered: true});
    }
  }

  addNodes(gathered) {
    const shown = this.places.nodes.filter((node) => !gathered || isSwitch(node));
    const level = shown.filter((node) => Math.abs(this.places.spots.get(node.name).y - this.places.floor) < 1);
    const apart = this.width / Math.max(1, level.length);
    const longest = Math.max(1, ...level.map((node) => node.name.length));
    this.slanted = this.places.layered && !gathered && apart < 7 * longest;
    const radius = shown.length <= 24 ? 9 : shown.length <= 80 ? 6.5 : 4;
    const rows = new Map();
    for (const node of shown) {
      const y = this.places.spots.get(node.name).y;
      const row = rows.get(y) || {count: 0, longest: 1, drawn: 0};
      rows.set(y, row);
      row.count++;
      row.longest = Math.max(row.longest, node.name.length);
    }
    for (const node of shown) this.addNode(node, radius, rows.get(this.places.spots.get(node.name).y));
  }

  // All names of a row are written alike; where there is no room for those of switches, every second or third is.
  addNode(node, radius, row) {
    const {x, y} = this.places.spots.get(node.name);
    const title = shape("title", {}, node.name);
    const drawn = isSwitch(node)
      ? shape("rect", {x: x - 1.3 * radius, y: y - 0.8 * radius, width: 2.6 * radius, height: 1.6 * radius, rx: 3,
        class: "switch"}, title)
      : shape("circle", {cx: x, cy: y, r: radius, class: "host"}, title);
    this.nodes.append(drawn);
    (isSwitch(node) ? this.switches : this.hosts).set(node.name, {node: drawn, title});
    const apart = this.width / row.count;
    const fits = apart >= 7 * row.longest;
    const above = isSwitch(node) && this.places.layered;
    const named = above ? row.drawn++ % Math.ceil(7 * row.longest / apart) === 0 : fits || apart >= 13;
    if (named) this.nodes.append(this.label(node.name, x, y, radius, above, fits || above));
  }

  label(text, x, y, radius, above, fits) {
    if (fits) return shape("text", {x, y: above ? y - radius - 5 : y + radius + 14, class: "name"}, text);
    return shape("text", {transform: `translate(${x + 3} ${y + radius + 9}) rotate(-60)`, class: "name slanted"}, text);
  }

  // --- use ---

  update(state) {
    this.state = state;
    this.makeRoom();
    let busiest = null;
    for (const link of state.links) {
      const use = part(link.ours + link.others, link.capacity);
      if (!busiest || use > busiest.use) busiest = {use, link};
      for (const way of this.ways.get(wayOf(link.from, link.to)) || []) this.colour(way, link, use);
    }
    for (const host of state.hosts) this.updateHost(host);
    for (const one of state.switches || []) this.updateSwitch(one);
    const what = busiest ? `; busiest link ${busiest.link.from} to ${busiest.link.to} at ${percent(busiest.use)}` : "";
    setAttribute(this.svg, "aria-label", `Network of ${plural(state.hosts.length, "host")}${what}`);
  }

  colour(way, link, use) {
    setAttribute(way.node, "class", useClass(use));
    const text = `${link.from} → ${link.to}: ${percent(use)} of ${rate(link.capacity)}\njobs ${rate(link.ours)}, other traffic ${rate(link.others)}`;
    if (way.title.textContent !== text) way.title.textContent = text;
  }

  updateHost(host) {
    const drawn = this.hosts.get(host.name);
    if (!drawn) return;
    const use = Math.max(0, ...host.interfaces.map((i) => Math.max(part(i.sent, i.rate), part(i.received, i.rate))));
    const marks = this.marks?.get(host.name) || "";
    const base = drawn.gathered ? `cell ${useClass(use)}` : "host";
    setAttribute(drawn.node, "class", `${base}${host.connected ? "" : " away"}${marks}`);
    const role = marks.includes("server") ? "\nserves the chosen job" : marks.includes("helper") ? "\nhelps the chosen job"
      : marks.includes("member") ? "\nin the chosen job" : "";
    const text = `${host.name}${host.connected ? "" : ": no agent"}\n${percent(use)} in use${role}`;
    if (drawn.title.textContent !== text) drawn.title.textContent = text;
  }

  // A switch that aggregates: what it does for the chosen job, and whose its cells are.
  updateSwitch(one) {
    const drawn = this.switches.get(one.name);
    if (!drawn) return;
    setAttribute(drawn.node, "class", `switch aggregates${this.marks?.get(one.name) || ""}`);
    const owners = ownersOf(one);
    const text = [one.name, ...(owners.length ? owners : ["no job has cells"])].join("\n");
    if (drawn.title.textContent !== text) drawn.title.textContent = text;
  }

  // --- trees ---

  // `job` or null. Draws again only where the plan is another.
  choose(job, anew = false) {
    const plan = job?.plan?.plan || null;
    const key = plan ? `${job.id} ${job.plan.number}` : job?.id || "";
    this.job = job;
    if (!anew && key === this.drawn) return;
    this.drawn = key;
    this.marks = new Map();
    this.arcs.replaceChildren();
    setAttribute(this.svg, "class", job ? "chosen" : "");
    for (const host of job?.hosts || []) this.marks.set(host, " member");
    for (const name of helpersOf(plan)) this.marks.set(name, " member helper");
    for (const name of serversOf(plan)) this.marks.set(name, " member server");
    for (const [name, adds] of switchesOf(plan)) this.marks.set(name, adds ? " adds" : " forwards");
    if (plan) treesOf(plan).forEach((tree, i) => this.addTree(tree, i, job));
    if (this.state) this.state.hosts.forEach((host) => this.updateHost(host));
    (this.state?.switches || []).forEach((one) => this.updateSwitch(one));
  }

  // A tree through switches is drawn over the network, others among the hosts.
  addTree(tree, index, job) {
    const through = isThrough(tree, job.plan.plan);
    const group = shape("g", {class: `tree tree-${index % TREE_COLOURS}${through ? " through" : ""}`});
    const what = through ? `server on ${hostOfServer(tree.root)}` : `root ${tree.root}`;
    group.append(shape("title", {}, `tree ${index + 1}, ${percent(tree.share)} of the buffer, ${what}`));
    for (const [child, parent] of Object.entries(tree.up || {})) {
      const a = this.spotOf(child, job, through), b = this.spotOf(parent, job, through);
      if (a && b) group.append(...this.arc(a, b, index));
    }
    const root = this.spotOf(tree.root, job, through);
    if (root) group.append(this.rootMark(root, index));
    this.arcs.append(group);
  }

  spotOf(vertex, job, through) {
    const spots = this.places.spots;
    const spot = spots.get(vertex) || spots.get(job.hosts[Number(vertex)]) || spots.get(hostOfServer(vertex));
    if (!spot) return null;
    if (through) return {...spot, below: false};
    const below = this.places.layered && Math.abs(spot.y - this.places.floor) < this.hostFloor - this.places.floor;
    return below ? {x: spot.x, y: this.hostFloor, below} : {...spot, below};
  }

  // Like an arc diagram under the row of hosts; elsewhere bent to one side, each tree more than the one before.
  arc(a, b, index) {
    const shift = (index % TREE_COLOURS) * 2.5;
    const distance = Math.hypot(b.x - a.x, b.y - a.y) || 1;
    const middle = {x: (a.x + b.x) / 2, y: (a.y + b.y) / 2};
    if (a.below && b.below) {
      a = {x: a.x + shift, y: a.y};
      b = {x: b.x + shift, y: b.y};
      const depth = Math.min(2 * ARCS - 40, 26 + 0.55 * distance) + 2 * shift;
      middle.x += shift;
      middle.y = a.y + Math.min(depth, 2 * ARCS - 24);
    } else {
      const bend = 0.14 * distance + 2 * shift;
      middle.x += (-(b.y - a.y) / distance) * bend;
      middle.y += ((b.x - a.x) / distance) * bend;
    }
    const path = `M${a.x.toFixed(1)} ${a.y.toFixed(1)}Q${middle.x.toFixed(1)} ${middle.y.toFixed(1)} ${b.x.toFixed(1)} ${b.y.toFixed(1)}`;
    return [shape("path", {d: path}), this.arrow(middle, b)];
  }

  arrow(from, to) {
    const turn = (Math.atan2(to.y - from.y, to.x - from.x) * 180) / Math.PI;
    return shape("path", {d: "M0 0L-7 3.2L-7 -3.2Z", class: "arrow",
      transform: `translate(${to.x.toFixed(1)} ${to.y.toFixed(1)}) rotate(${turn.toFixed(0)})`});
  }

  rootMark(spot, index) {
    const x = spot.x + (spot.below ? (index % TREE_COLOURS) * 2.5 : 0);
    return shape("circle", {cx: x.toFixed(1), cy: spot.y.toFixed(1), r: 3.6, class: "root"});
  }
}

// --- plans ---

// Those for the largest buffers.
export function treesOf(plan) {
  if (plan?.trees?.length) return plan.trees;
  return plan?.classes?.at(-1)?.trees || [];
}

// "h0/1" is the second server on host h0.
const hostOfServer = (vertex) => vertex.slice(0, Math.max(0, vertex.lastIndexOf("/")));

export const isThrough = (tree, plan) => plan?.vertices?.[tree.root]?.kind === "server";

export const serversOf = (plan) => [...new Set(treesOf(plan).filter((tree) => isThrough(tree, plan)).map((tree) => hostOfServer(tree.root)))];

// The switches of a plan's trees, and whether they add for some tree.
export function switchesOf(plan) {
  const found = new Map();
  for (const tree of treesOf(plan)) {
    for (const name of switchesOfTree(tree, plan)) {
      found.set(name, found.get(name) || !(tree.forwards || []).includes(name));
    }
  }
  return found;
}

export const switchesOfTree = (tree, plan) => Object.keys(tree.up || {}).filter((name) => plan?.vertices?.[name]?.kind === "switch");

// "train: 100 of 512 slots", for each job that has or wants cells of a switch.
export function ownersOf(one) {
  return one.jobs.map((of) => `${of.name || of.job.slice(0, 8)}: ${of.slots < of.requested ? `${of.slots} of ` : ""}${plural(of.slots < of.requested ? of.requested : of.slots, "slot")}`);
}

export function helpersOf(plan) {
  return Object.entries(plan?.vertices || {}).filter(([, v]) => v.kind === "helper").map(([name]) => name);
}
