// The page: what is asked, what comes back, and the link that holds the whole state.
import {Connection} from "./socket.js";
import {Controls} from "./controls.js";
import {Chart} from "./charts.js";
import {headOf, partsOf} from "./parts.js";

const LATE_MS = 200;  // after which a view that has not come is called late
const COPIED_MS = 1200;
const at = id => document.getElementById(id);
const explorer = window.learndyn = {  // what tests read
  measured: [], charts: [], view: null,
  get settled() { return ready && !asked && shown === wanted; },
};
let pages = [], page = null, axes = {};
// Messages are numbered: the last one, the latest question, the one it was answered for, what is drawn, the run.
let number = 0, wanted = 0, shown = 0, drawn = 0, run = 0;
let began = 0, asked = false, ready = false, late = 0;
const pressed = {train: 0, stop: 0};

const {pathname} = location;
if (location.search) history.replaceState(null, "", pathname + location.hash);  // the token is a cookie now

// -- the state, in the address -----------------------------------------------------------------
const state = () => {
  const query = new URLSearchParams(Object.entries(controls.values).map(([n, v]) => [n, String(v)]));
  const chosen = {...axes, ...explorer.charts.map(chart => chart.axes)};  // of charts that are not drawn yet, too
  for (const [i, {x, y}] of Object.entries(chosen)) query.set(`axes${i}`, `${+x}${+y}`);
  return `#${page.name}?${query}`;
};
const fromAddress = () => {
  const [name, query] = location.hash.slice(1).split("?");
  const given = new URLSearchParams(query ?? "");
  page = pages.find(each => each.name === name) ?? pages[0];
  axes = {};
  for (const [key, text] of given) if (/^axes\d$/.test(key)) axes[key.slice(4)] = {x: text[0] === "1", y: text[1] === "1"};
  const read = (control, text) => control.kind === "flag" ? text === "true"
    : control.kind === "slider" && text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
  return Object.fromEntries(Object.entries(page.controls)
    .filter(([n]) => given.has(n)).map(([n, control]) => [n, read(control, given.get(n))]));
};
const remember = () => history.replaceState(null, "", state());

// -- asking ------------------------------------------------------------------------------------
const controls = new Controls(at("controls"), (name, problem) => {
  if (problem) at("error").textContent = problem;
  else ask(name);
});

function ask(name) {  // at most one question per frame
  if (asked) return;
  began = performance.now();
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    explorer.moved = name;
    endRun();
    remember();
    wanted = send("show");
    clearTimeout(late);
    late = setTimeout(() => {
      at("view").classList.add("stale");
      at("view").setAttribute("aria-busy", "true");
      at("state").textContent = ready ? "computing…" : "starting…";
    }, LATE_MS);
  });
}

function send(kind) {
  number += 1;
  connection.send({kind, number, page: page.name, values: controls.values});
  return number;
}

function endRun() {
  if (run) send("stop");
  run = 0;
  idle();
  at("verdict").textContent = at("error").textContent = "";
  for (const chart of explorer.charts) chart.clearRuns();
}

function idle() {
  at("train").disabled = at("files").disabled = !ready;
  at("stop").disabled = true;
  at("progress").value = 0;
}

function open(values) {
  at("title").textContent = page.title;
  at("about").textContent = page.about;
  at("equation").textContent = page.equation ? `${page.equation}   (${page.source})` : page.source;
  document.title = `${page.title} – learndyn`;
  for (const link of at("pages").children) {
    if (link.dataset.page === page.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  controls.build(page.controls, values);
  explorer.charts.length = 0;
  at("charts").replaceChildren();
  at("head").replaceChildren();
  at("parts").replaceChildren();
  at("bar").hidden = at("program").hidden = true;
  at("status").textContent = "";
  drawn = number + 1;  // no answer that is under way belongs to this page
  ask("page");
}

const go = values => {
  controls.set(values);
  if (location.hash !== state()) history.pushState(null, "", state());  // from which one can go back
  ask("lead");
};

// -- what comes back ----------------------------------------------------------------------------
function drawView(view) {
  const figures = explorer.charts;
  while (figures.length > view.charts.length) figures.pop().element.remove();
  while (figures.length < view.charts.length) {
    const chart = new Chart();
    chart.moved = remember;
    figures.push(chart);
    at("charts").append(chart.element);
  }
  view.charts.forEach((spec, i) => figures[i].show(spec, axes[i]));
  at("status").textContent = view.status;
  keepingFocus(() => {
    at("head").replaceChildren(...headOf(view, go));
    at("parts").replaceChildren(...partsOf(view, values => { scrollTo(0, 0); go(values); }));
  });
  at("code").textContent = view.code;
  at("program").hidden = !view.code;
  at("bar").hidden = !view.trains && !view.saves;
  at("train").hidden = at("stop").hidden = at("progress").hidden = !view.trains;
  at("train").textContent = view.trains;
  at("files").hidden = !view.saves;
  controls.hint(view.hints, view.offers);
}

// Whoever pressed a button by the keyboard goes on from there, or from the top if it is gone.
function keepingFocus(replace) {
  const before = document.activeElement, buttons = () => [...at("head").querySelectorAll("button")];
  const place = buttons().indexOf(before), inside = place >= 0 || at("parts").contains(before);
  replace();
  if (inside) (buttons()[place] ?? at("main")).focus({preventScroll: true});
}

const on = {
  starting() { at("state").textContent = "starting…"; },
  ready() {
    const again = !ready || shown < wanted;
    ready = true;
    at("state").textContent = "ready";
    if (again) ask("ready");
  },
  gone(m) { ready = false; endSoftly(`${m.reason}; trying again…`); },
  restarting() { at("state").textContent = "a process has ended; starting another…"; },
  compiling(m) { if (m.number === wanted) at("state").textContent = "computing: new sizes compile first…"; },
  view(m) {
    if (m.number < drawn) return;
    drawn = m.number;
    explorer.view = m.view;
    drawView(m.view);
    if (m.number !== wanted) return;  // while a slider moves, the curve follows it; a run has ended
    const first = shown !== wanted;
    answered();
    at("view").classList.remove("stale");
    if (!first) return;
    const ms = performance.now() - began;
    explorer.measured.push({name: explorer.moved, ms, server: 1e3 * m.seconds, compiled: m.compiled});
    at("took").textContent = `drawn in ${ms.toFixed(0)} ms`;
  },
  rows(m) {
    if (m.number !== run) return;
    const chart = explorer.charts.find(each => each.streams && m.values[each.streams]);
    chart?.addRows(m.run, m.first, m.values[chart.streams]);
    explorer.measured.push({name: "rows", ms: performance.now() - pressed.train});
  },
  progress(m) { if (m.number === run) at("progress").value = m.done; },
  verdict(m) {
    if (m.number !== run) return;
    idle();
    const word = document.createElement("b");
    word.textContent = m.verdict;
    word.className = {agrees: "good", "agrees within finite size": "good", deviates: "bad"}[m.verdict] ?? "";
    at("verdict").replaceChildren(word, `: ${m.reason}. ${m.seconds.toFixed(1)} s.`);
    explorer.measured.push({name: "verdict", ms: performance.now() - pressed.train});
    explorer.done = run;
    run = 0;
  },
  stopped(m) {
    if (m.number !== run) return;
    idle();
    run = 0;
    at("verdict").textContent = "Stopped.";
    explorer.measured.push({name: "stopped", ms: performance.now() - pressed.stop});
  },
  files(m) {
    for (const file of m.files) download(file);
    explorer.saved = m.files.length;
  },
  error(m) {
    if (m.number && m.number < wanted) return;
    const [, name, rest] = /^(\w+)(:.*)$/s.exec(m.text) ?? [];
    at("error").textContent = page.controls[name] ? page.controls[name].label + rest : m.text;
    if (m.number === wanted) {
      answered();
      at("view").classList.add("stale");  // they are of other values
    }
    if (m.number !== run && m.number) return;
    run = 0;
    idle();
    at("verdict").textContent = "";
  },
};

function answered() {
  clearTimeout(late);
  shown = wanted;
  at("view").setAttribute("aria-busy", "false");
  at("state").textContent = "ready";
}

function endSoftly(text) {
  run = 0;
  idle();
  at("state").textContent = text;
}

function download({name, content}) {
  const bytes = Uint8Array.from(atob(content), letter => letter.charCodeAt(0));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([bytes]));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

async function copy(button, text) {
  button.dataset.text ??= button.textContent;
  const copied = await navigator.clipboard.writeText(text).then(() => true, () => false);
  button.textContent = copied ? "Copied" : "The browser does not allow it";
  setTimeout(() => { button.textContent = button.dataset.text; }, COPIED_MS);
}

// -- buttons -----------------------------------------------------------------------------------
at("train").onclick = () => {
  pressed.train = performance.now();
  for (const chart of explorer.charts) { chart.clearRuns(); chart.draw(); }
  at("train").disabled = true;
  at("stop").disabled = false;
  at("error").textContent = "";
  at("verdict").textContent = "running…";
  run = send("train");
};
at("stop").onclick = () => {
  pressed.stop = performance.now();
  send("stop");
};
at("files").onclick = () => {
  at("error").textContent = "";
  send("files");
};
at("copy").onclick = () => copy(at("copy"), at("code").textContent);
at("link").onclick = () => { remember(); copy(at("link"), location.href); };
at("reset").onclick = () => { controls.set(Object.fromEntries(Object.entries(page.controls).map(([n, c]) => [n, c.start]))); ask("reset"); };
addEventListener("resize", () => explorer.charts.forEach(chart => chart.draw()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => explorer.charts.forEach(chart => chart.draw()));
addEventListener("hashchange", () => { if (location.hash !== state()) open(fromAddress()); });

pages = (await (await fetch("/pages")).json()).pages;
at("pages").replaceChildren(...pages.map(each => Object.assign(document.createElement("a"),
  {href: `#${each.name}`, textContent: each.title})));
[...at("pages").children].forEach((link, i) => { link.dataset.page = pages[i].name; });
const connection = new Connection(message => on[message.kind](message));
open(fromAddress());
