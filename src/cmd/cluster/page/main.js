// Asks the manager each second and shows what it says.
import {element, setText, setAttribute, rate, bytes, seconds, age, count, percent, clock, plural, part, useClass} from "/units.js";
import {Network, treesOf, helpersOf, isThrough, switchesOfTree, ownersOf, TREE_COLOURS} from "/topology.js";
import {Table, Past, makeSpark, drawSpark, makeBar, drawBar} from "/tables.js";

const POLL = 1000; // ms
const PATIENCE = 5000; // ms that an answer may take
const PAST = 120; // iteration times kept a job

const at = (id) => document.getElementById(id);
const network = new Network(at("drawing"));
const past = new Past(PAST);
let state = null; // the last answer
let known = ""; // the topology that is drawn
let answered = 0; // when the last answer came, ms
let away = 0; // since when there is none, ms

// --- jobs ---

let first = null; // the job that is chosen while nobody has chosen one; it is not in the address
let opened = false; // there was one, or a choice
const chosenId = () => new URLSearchParams(location.hash.slice(1)).get("job") || first;
const chosenJob = () => state?.jobs.find((job) => job.id === chosenId()) || null;

// The page begins with the first row of the table, so that its trees are seen.
function chooseFirst() {
  opened = opened || Boolean(chosenId());
  if (opened || !jobTable.shown.length) return;
  opened = true;
  first = jobTable.shown[0].id;
  showJobs();
}

function choose(id) {
  first = null;
  opened = true;
  history.replaceState(null, "", id ? `#job=${id}` : location.pathname);
  showJobs();
  showJob();
}

function nameButton(job) {
  const button = element("button", {type: "button", class: "choose"});
  button.addEventListener("click", () => choose(chosenId() === job.id ? null : job.id));
  return button;
}

function changeName(button, job) {
  setText(button, job.name || job.id.slice(0, 8));
  setAttribute(button, "aria-pressed", job.id === chosenId());
  setAttribute(button, "title", `job ${job.id}`);
}

const stateRank = {switching: 0, running: 1, waiting: 2, left: 3};

function changeState(node, job) {
  setText(node, job.state);
  setAttribute(node, "class", `state ${job.state}`);
  setAttribute(node, "title", job.why || "");
}

// "320 of 500", where the job says how many it will make.
const iterationsText = (job) => (job.expected > 0 ? `${count(job.iterations)} of ${count(job.expected)}` : count(job.iterations));
const leftText = (job) => {
  if (typeof job.seconds_left === "number") return `, about ${age(job.seconds_left)} left`;
  return typeof job.ends_in === "number" ? `, at most ${age(job.ends_in)} left` : "";
};

const jobName = {name: "Job", value: (j) => j.name, make: nameButton, change: changeName};
const jobState = {name: "State", value: (j) => stateRank[j.state] ?? 4, make: () => element("span"), change: changeState};
const jobColumns = [
  jobName,
  jobState,
  {name: "Class", title: "0 is the highest priority", number: true, value: (j) => j.class, text: (j) => String(j.class)},
  {name: "Ranks", number: true, value: (j) => j.size, text: (j) => String(j.size)},
  {name: "Hosts", number: true, value: (j) => new Set(j.hosts).size, text: (j) => String(new Set(j.hosts).size)},
  {name: "Iterations", title: "and how many the job has announced", number: true, value: (j) => j.iterations, text: iterationsText},
  {name: "Iteration time", number: true, value: (j) => j.iteration_time, text: (j) => seconds(j.iteration_time)},
  {name: "Last minutes", title: "iteration time since this page was opened", value: (j) => j.iteration_time,
    make: makeSpark, change: (node, j) => drawSpark(node, past.get(j.id), PAST)},
  {name: "Sent", number: true, value: (j) => j.sent, text: (j) => bytes(j.sent)},
  {name: "Input", title: "rate at which input is summed, per rank", number: true, value: (j) => j.input_rate, text: (j) => rate(j.input_rate)},
  {name: "Plan", title: "number of the manager's plan, or the name of the user's", number: true,
    value: (j) => j.plan?.number || 0, text: (j) => (j.own_plan ? `“${j.own_plan}”` : j.plan ? `${j.plan.number}` : "–")},
  {name: "Planned for", title: "predicted rate at which the job sums with its plan", number: true, value: (j) => j.plan?.throughput || 0,
    text: (j) => (j.plan ? rate(j.plan.throughput) : "–")},
  {name: "Helpers", number: true, value: (j) => helpersOf(j.plan?.plan).length, text: (j) => String(helpersOf(j.plan?.plan).length)},
  {name: "Since", number: true, value: (j) => j.since, text: (j) => age(state.time - j.since)},
];

const jobTable = new Table(at("job-table"), jobColumns, {
  key: (job) => job.id, order: {column: jobState, down: false}, count: at("job-count"), all: at("job-all"),
  chosen: (job) => job.id === chosenId(), what: "job",
});

function matches(job, words) {
  const text = `${job.name} ${job.id} ${job.hosts.join(" ")}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

const wordsOf = (id) => at(id).value.toLowerCase().split(/\s+/).filter(Boolean);

function showJobs() {
  if (!state) return;
  const words = wordsOf("job-filter"), wanted = at("job-state").value;
  jobTable.show(state.jobs.filter((j) => (!wanted || j.state === wanted) && matches(j, words)), state.jobs.length);
}

// --- the chosen job ---

// "7.1 → 9.8 Gbit/s", the unit once where it is the same.
function gainText(plan) {
  if (!(plan.before > 0)) return rate(plan.after);
  const [before, unit] = rate(plan.before).split(" ");
  const after = rate(plan.after);
  return after.endsWith(` ${unit}`) ? `${before} → ${after}` : `${before} ${unit} → ${after}`;
}

const historyColumns = [
  {name: "Plan", number: true, value: (h) => h.number, text: (h) => String(h.number)},
  {name: "At", value: (h) => h.time, text: (h) => clock(h.time)},
  {name: "Why", value: (h) => h.why, text: (h) => h.why},
  {name: "Throughput", title: "predicted: with the plan before → with this plan", number: true, value: (h) => h.after, text: gainText},
];
const historyTable = new Table(at("history"), historyColumns,
  {key: (h) => `${h.number} ${h.time}`, order: {column: historyColumns[0], down: true}});

// A fact is [name, value] or [name, value, what it means].
function showFacts(list, facts) {
  while (list.children.length < 2 * facts.length) {
    list.append(element("dt"), element("dd", {}, element("span"), element("span", {class: "meaning"})));
  }
  while (list.children.length > 2 * facts.length) list.lastChild.remove();
  facts.forEach(([name, value, meaning], i) => {
    const shown = list.children[2 * i + 1].children;
    setText(list.children[2 * i], name);
    setText(shown[0], value);
    setText(shown[1], meaning || "");
  });
}

function treeText(tree, plan) {
  const kind = tree.kind && tree.kind !== "tree" ? `${tree.kind}, ` : "";
  if (isThrough(tree, plan)) return throughText(tree, plan);
  const at = tree.root ? `root ${tree.root}` : "all with all";
  return `${percent(tree.share)} ${kind}${at}${tree.rate ? `, ${rate(tree.rate)}` : ""}`;
}

// "60 % through leaf0, leaf1, spine0 (forwards), server r0h0/0, 42 Mbit/s".
function throughText(tree, plan) {
  const forwards = new Set(tree.forwards || []);
  const names = switchesOfTree(tree, plan).map((name) => (forwards.has(name) ? `${name} (forwards)` : name));
  return `${percent(tree.share)} ${names.length ? `through ${names.join(", ")}, ` : ""}server ${tree.root}${tree.rate ? `, ${rate(tree.rate)}` : ""}`;
}

function showTrees(job) {
  const trees = treesOf(job.plan?.plan);
  const key = `${job.id} ${job.plan?.number} ${job.own_plan}`;
  if (at("trees").dataset.key === key) return;
  at("trees").dataset.key = key;
  const rows = trees.map((tree, i) => element("li", {},
    element("span", {class: `swatch tree-${i % TREE_COLOURS}`, "aria-hidden": "true"}), treeText(tree, job.plan.plan)));
  const helpers = helpersOf(job.plan?.plan);
  if (helpers.length) {
    rows.push(element("li", {}, element("span", {class: "swatch helper", "aria-hidden": "true"}), `helped by ${helpers.join(", ")}`));
  }
  if (!trees.length)
    rows.push(element("li", {}, job.own_plan ? `The user set plan “${job.own_plan}”, which the manager does not replace.`
      : "The job has no plan from the manager yet."));
  at("trees").replaceChildren(...rows);
}

function hostsText(hosts) {
  const names = [...new Set(hosts)];
  return names.length <= 12 ? names.join(", ") : `${names.slice(0, 10).join(", ")} and ${names.length - 10} more`;
}

// "s1: 100 of 512 slots", for each of its trees over each switch that adds.
function cellsText(job) {
  return job.cells.map((c) => (c.slots < c.requested ? `${c.switch}: ${c.slots} of ${c.requested} slots` : `${c.switch}: ${plural(c.slots, "slot")}`)).join(", ");
}

function showJob() {
  const job = chosenJob();
  network.choose(job);
  at("job-none").hidden = Boolean(job);
  at("job-body").hidden = at("unchoose").hidden = !job;
  setText(at("job-title"), job ? job.name || job.id : "Chosen job");
  if (!job) return;
  showFacts(at("job-facts"), [
    ["State", `${job.state}, class ${job.class}${job.why ? `: ${job.why}` : ""}`],
    ["Hosts", hostsText(job.hosts)],
    ["Iterations", `${iterationsText(job)}${leftText(job)}`],
    ["Iteration time", seconds(job.iteration_time)],
    ["Plan", job.own_plan ? `“${job.own_plan}”, set by its user` : job.plan ? `${job.plan.number}, for ${rate(job.plan.throughput)}, made at ${clock(job.plan.made)}` : "none yet"],
    ...(job.cells?.length ? [["At switches", cellsText(job)]] : []),
    ["Id", job.id],
  ]);
  showTrees(job);
  historyTable.show(job.history, job.history.length);
}

// --- hosts, links, counters ---

const usedBy = (i) => Math.max(part(i.sent, i.rate), part(i.received, i.rate));
const useOf = (host) => Math.max(0, ...host.interfaces.map(usedBy));
const sum = (host, field) => host.interfaces.reduce((total, i) => total + (Number(i[field]) || 0), 0);

function roleOf(host) {
  if (host.in_topology === false) return "not in the topology";
  if (!host.connected) return "no agent";
  if (host.helping.length) return `helps ${plural(host.helping.length, "job")}`;
  return host.may_help ? "connected, may help" : "connected";
}

const hostName = {name: "Host", value: (h) => h.name, text: (h) => h.name};
const hostColumns = [
  hostName,
  {name: "Agent", value: roleOf, text: roleOf},
  {name: "Interfaces", value: (h) => h.interfaces.length, text: (h) => h.interfaces.map((i) => i.name).join(", ") || "–"},
  {name: "In use", value: useOf, make: makeBar, change: (node, h) => drawBar(node, useOf(h), useClass(useOf(h)), percent(useOf(h)))},
  {name: "Sends", number: true, value: (h) => sum(h, "sent"), text: (h) => rate(sum(h, "sent"))},
  {name: "Sent by jobs", number: true, value: (h) => sum(h, "ours_sent"), text: (h) => rate(sum(h, "ours_sent"))},
  {name: "Receives", number: true, value: (h) => sum(h, "received"), text: (h) => rate(sum(h, "received"))},
  {name: "Received by jobs", number: true, value: (h) => sum(h, "ours_received"), text: (h) => rate(sum(h, "ours_received"))},
  {name: "Rate", number: true, value: (h) => sum(h, "rate"), text: (h) => rate(sum(h, "rate"))},
];
const hostTable = new Table(at("host-table"), hostColumns, {
  key: (host) => host.name, order: {column: hostName, down: false}, count: at("host-count"), all: at("host-all"),
  what: "host",
});

function showHosts() {
  if (!state) return;
  const words = wordsOf("host-filter");
  hostTable.show(state.hosts.filter((h) => words.every((word) => h.name.toLowerCase().includes(word))), state.hosts.length);
}

const linkUse = (link) => part(link.ours + link.others, link.capacity);
const linkColumns = [
  {name: "From", value: (l) => l.from, text: (l) => l.from},
  {name: "To", value: (l) => l.to, text: (l) => l.to},
  {name: "In use", value: linkUse, make: makeBar, change: (node, l) => drawBar(node, linkUse(l), useClass(linkUse(l)), percent(linkUse(l)))},
  {name: "Jobs", number: true, value: (l) => l.ours, text: (l) => rate(l.ours)},
  {name: "Other traffic", number: true, value: (l) => l.others, text: (l) => rate(l.others)},
  {name: "Capacity", number: true, value: (l) => l.capacity, text: (l) => rate(l.capacity)},
];
const linkTable = new Table(at("link-table"), linkColumns,
  {key: (l) => `${l.from} ${l.to}`, order: {column: linkColumns[2], down: true}});

function showLinks() {
  linkTable.show([...state.links].sort((a, b) => linkUse(b) - linkUse(a)).slice(0, 8), state.links.length);
}

// --- switches ---

const givenPart = (one) => part(one.given, one.memory);
const switchName = {name: "Switch", value: (s) => s.name, text: (s) => s.name};
const switchColumns = [
  switchName,
  {name: "In use", title: "of its memory for sums", value: givenPart, make: makeBar,
    change: (node, s) => drawBar(node, givenPart(s), useClass(givenPart(s)), s.memory ? percent(givenPart(s)) : "–")},
  {name: "Memory", number: true, value: (s) => s.memory, text: (s) => (s.memory ? bytes(s.memory) : "unknown")},
  {name: "Trees", number: true, value: (s) => s.jobs.length, text: (s) => String(s.jobs.length)},
  {name: "Jobs with cells", title: "and how many of the requested slots each has", value: (s) => s.jobs.length,
    text: (s) => ownersOf(s).join("; ") || "–"},
];
const switchTable = new Table(at("switch-table"), switchColumns, {key: (s) => s.name, order: {column: switchName, down: false}});

function showSwitches() {
  const switches = state.switches || [];
  at("switches").hidden = !switches.length;
  switchTable.show(switches, switches.length);
}

const COUNTERS = {
  reports: "reports that came from agents",
  refused: "messages of agents that were rejected",
  planned: "runs of the planner for a job",
  plans: "plans that were better by enough, and were proposed to their jobs",
  plan_switches: "proposed plans that jobs changed to",
  kept: "proposed plans that jobs did not change to; they kept the plan they had",
};

function showSummary() {
  const running = state.jobs.filter((j) => j.state === "running" || j.state === "switching").length;
  const connected = state.hosts.filter((h) => h.connected).length;
  const helping = state.hosts.filter((h) => h.helping.length).length;
  const full = Math.max(0, ...state.links.map(linkUse));
  const items = [`${count(running)} of ${plural(state.jobs.length, "job")} running`,
    `${count(connected)} of ${plural(state.hosts.length, "host")} connected`,
    helping ? `${plural(helping, "host")} helping` : "", `busiest link ${percent(full)}`].filter(Boolean);
  const list = at("summary");
  while (list.children.length < items.length) list.append(element("li"));
  while (list.children.length > items.length) list.lastChild.remove();
  items.forEach((text, i) => setText(list.children[i], text));
  showFacts(at("counts"), [...Object.entries(state.counters).map(([name, value]) => [name.replaceAll("_", " "), count(value), COUNTERS[name]]),
    ["version", state.version]]);
}

// What agents report of the network that others, or the topology that was named, contradict.
function showContradictions() {
  const items = state.contradictions || [], list = at("contradictions");
  list.hidden = !items.length;
  while (list.children.length < items.length) list.append(element("li"));
  while (list.children.length > items.length) list.lastChild.remove();
  items.forEach((text, i) => setText(list.children[i], text));
}

function showLegend() {
  const steps = Array.from({length: 10}, (_, i) => element("span", {class: `step use-${i}`}));
  at("legend").replaceChildren(element("span", {}, "idle"), ...steps, element("span", {}, "full; each direction is on the right-hand side"));
}

// --- asking ---

async function ask(path) {
  const response = await fetch(path, {signal: AbortSignal.timeout(PATIENCE), cache: "no-store"});
  if (response.status === 401) throw new Error("token");
  if (!response.ok) throw new Error(`the manager answers ${response.status}`);
  return response.json();
}

// Positions come with the first state, and again when the topology is another.
async function drawTopology() {
  const key = JSON.stringify(state.topology);
  if (key === known || !state.topology.nodes.length) return; // no nodes: agents have not reported yet
  network.setTopology(state.topology, await ask("/layout"));
  setText(at("cluster"), state.topology.name || "");
  known = key;
}

function show() {
  for (const job of state.jobs) if (job.iteration_time > 0) past.note(job.id, job.iteration_time);
  past.keep(new Set(state.jobs.map((job) => job.id)));
  if (known) network.update(state);
  showSummary();
  showContradictions();
  showJobs();
  chooseFirst();
  showJob();
  showLinks();
  showSwitches();
  showHosts();
}

function showTrouble(why) {
  const trouble = at("trouble");
  document.body.classList.toggle("stale", Boolean(why));
  if (!why) {
    trouble.hidden = true;
    setText(at("live"), "Live");
    return;
  }
  const shown = state ? ` The page shows the state at ${clock(answered / 1000)}.` : "";
  trouble.hidden = false;
  setText(at("live"), `Not live, for ${age((Date.now() - away) / 1000)}`);
  if (why === "token") {
    trouble.replaceChildren("The manager no longer accepts the token. ", element("a", {href: "/"}, "Enter another one."));
  } else {
    setText(trouble, `The manager has not answered since ${clock(away / 1000)}.${shown} Trying again.`);
  }
}

async function poll() {
  const began = Date.now();
  try {
    state = await ask("/state");
    await drawTopology();
    answered = Date.now();
    away = 0;
    show();
    showTrouble(null);
  } catch (error) {
    away = away || Date.now();
    showTrouble(error.message);
    if (error.name !== "TypeError" && error.name !== "TimeoutError" && error.message !== "token") console.error(error);
  }
  const took = Date.now() - began; // large clusters are asked less often
  setTimeout(poll, Math.max(POLL - took, away ? POLL : 2 * took, document.hidden ? 5 * POLL : 0));
}

at("job-filter").addEventListener("input", showJobs);
at("job-state").addEventListener("change", showJobs);
at("host-filter").addEventListener("input", showHosts);
at("unchoose").addEventListener("click", () => choose(null));
for (const form of ["job-tools", "host-tools"]) at(form).addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", () => { showJobs(); showJob(); });
addEventListener("keydown", (event) => { if (event.key === "Escape" && chosenId()) choose(null); });
showLegend();
poll();
