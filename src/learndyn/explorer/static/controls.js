// The controls of a page: made from their descriptions, read as values, set from values.
const STEPS = 200;  // of a slider between its ends

const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};
export {element};

const digits = value => +value.toPrecision(3);
const fromPlace = (c, place) => {
  const value = c.log ? c.low * (c.high / c.low) ** (place / STEPS) : c.low + (c.high - c.low) * place / STEPS;
  const short = Math.min(c.high, Math.max(c.low, c.log ? digits(value) : +value.toFixed(4)));
  return c.whole ? Math.round(short) : short;
};
const toPlace = (c, value) => c.log ? STEPS * Math.log(value / c.low) / Math.log(c.high / c.low)
  : STEPS * (value - c.low) / (c.high - c.low);

export class Controls {
  #form; #parts = {}; #changed;

  constructor(form, changed) {
    this.#form = form;
    this.#changed = changed;
    form.addEventListener("submit", event => event.preventDefault());
  }

  // Shows the controls of a page; `values` may lack some.
  build(descriptions, values) {
    this.#parts = {};
    this.#form.replaceChildren(...Object.entries(descriptions).map(([name, c]) => {
      const changed = problem => this.#changed(name, typeof problem === "string" ? problem : "");
      const part = this.#parts[name] = MAKERS[c.kind](name, c, changed);
      part.set(values[name] ?? c.start);
      part.hint = element("div", {className: "hint", id: `hint-${name}`});
      const control = element("div", {className: "control"}, ...part.elements, part.hint);
      for (const input of control.querySelectorAll("input, select")) input.setAttribute("aria-describedby", part.hint.id);
      return control;
    }));
  }

  get values() {
    return Object.fromEntries(Object.entries(this.#parts).map(([name, part]) => [name, part.get()]));
  }

  set(values) {
    for (const [name, value] of Object.entries(values)) this.#parts[name]?.set(value);
  }

  hint(hints, offers) {
    for (const [name, part] of Object.entries(this.#parts)) {
      part.hint.textContent = hints[name] ?? "";
      if (offers[name] && part.offer) part.offer(offers[name]);
    }
  }
}

const head = (name, label, ...more) =>
  element("div", {className: "head"}, element("label", {htmlFor: `c-${name}`, textContent: label}), ...more);

const MAKERS = {
  slider(name, c, changed) {
    const steps = c.whole && !c.log ? {min: c.low, max: c.high} : {min: 0, max: STEPS};
    const linear = c.whole && !c.log;
    const range = element("input", {type: "range", id: `c-${name}`, ...steps, step: 1});
    const exact = element("input", {type: "text", className: "value", inputMode: "decimal", id: `v-${name}`});
    exact.setAttribute("aria-label", `${c.label}, exact value`);
    let value = c.start;
    const set = (wanted, moves = true) => {
      value = wanted;
      if (moves) range.value = linear ? value : toPlace(c, value);
      exact.value = String(value);
      range.setAttribute("aria-valuetext", String(value));
    };
    range.addEventListener("input", () => {
      set(linear ? +range.value : fromPlace(c, +range.value), false);
      changed();
    });
    // What is typed goes to the server as it is, which says what is allowed.
    exact.addEventListener("change", () => {
      const typed = exact.value.trim() === "" ? NaN : Number(exact.value);
      set(Number.isFinite(typed) ? typed : exact.value);
      changed();
    });
    return {elements: [head(name, c.label, exact), range], get: () => value, set};
  },
  choice(name, c, changed) {
    const select = element("select", {id: `c-${name}`});
    for (const option of c.options) select.add(new Option(option, option));
    let value = c.start;  // what an address says goes to the server as it is, too
    select.addEventListener("change", () => { value = select.value; changed(); });
    return {elements: [head(name, c.label), select], get: () => value, set: v => { select.value = value = v; }};
  },
  flag(name, c, changed) {
    const box = element("input", {type: "checkbox", id: `c-${name}`});
    box.addEventListener("change", changed);
    const set = v => { box.checked = v === true || v === "true"; };
    return {elements: [head(name, c.label, box)], get: () => box.checked, set};
  },
  text(name, c, changed) {
    return TEXTS[c.source](name, c, changed);
  },
};

const TEXTS = {
  typed(name, c, changed) {
    const input = element("input", {type: "text", id: `c-${name}`});
    input.addEventListener("input", changed);
    return {elements: [head(name, c.label), input], get: () => input.value, set: v => { input.value = v; }};
  },
  offered(name, c, changed) {
    const select = element("select", {id: `c-${name}`});
    let value = c.start;
    select.addEventListener("change", () => { value = select.value; changed(); });
    const offer = texts => {
      select.replaceChildren(...texts.map(text => new Option(text || "–", text)));
      select.value = value;
      if (select.selectedIndex < 0) select.selectedIndex = 0;
    };
    const set = v => { value = v; if (![...select.options].some(o => o.value === v)) select.add(new Option(v || "–", v)); select.value = v; };
    return {elements: [head(name, c.label), select], get: () => value, set, offer};
  },
  file(name, c, changed) {
    const input = element("input", {type: "file", id: `c-${name}`});
    let value = c.start;
    input.addEventListener("click", () => { input.value = ""; });  // the same file may have grown
    input.addEventListener("change", async () => {
      const file = input.files[0];
      if (!file) return;
      const to = `/files?name=${encodeURIComponent(file.name)}`;
      const answer = await fetch(to, {method: "POST", body: file}).catch(() => null);
      if (answer?.ok) value = (await answer.json()).file;
      changed(answer?.ok ? "" : `${file.name}: the file could not be sent; it may be too large`);
    });
    return {elements: [head(name, c.label), input], get: () => value, set: v => { value = v; }};
  },
};
