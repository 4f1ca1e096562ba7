// Tables, maps, pictures and notes of a view.
import {short} from "./charts.js";
import {element} from "./controls.js";

const SHADES = 5;
const WIDE = 100;  // ratio of the ends beyond which shades are even on a logarithmic scale

const scrolled = table => {
  const around = element("div", {className: "scroll", tabIndex: 0}, table);
  around.setAttribute("role", "region");
  around.setAttribute("aria-label", table.ariaLabel);
  return around;
};

const lead = (text, values, go) => {
  const button = element("button", {type: "button", textContent: text});
  button.addEventListener("click", () => go(values));
  return button;
};

const headed = (tag, texts) => element("tr", {}, ...texts.map(text => {
  const cell = element("th", {textContent: text});
  cell.scope = tag;
  return cell;
}));

const tableOf = (spec, go) => {
  const rows = spec.rows.map((row, i) => element("tr", {}, ...row.map((text, j) =>
    element("td", {}, spec.leads[i] && j === 0 ? lead(text, spec.leads[i], go) : text))));
  const table = element("table", {ariaLabel: spec.title}, element("thead", {}, headed("col", spec.head)),
    element("tbody", {}, ...rows));
  return element("section", {}, element("h2", {textContent: spec.title}), scrolled(table));
};

const heatOf = (spec, go) => {
  const known = spec.values.flat().filter(v => v !== null);
  const low = Math.min(...known), high = Math.max(...known), log = low > 0 && high > WIDE * low;
  const place = log ? v => Math.log(v / low) / Math.log(high / low) : v => (v - low) / (high - low || 1);
  const shade = v => v === null ? 0 : Math.min(SHADES - 1, Math.floor(SHADES * place(v)));
  const cell = (v, i, j) => {
    const text = v === null ? spec.status[i][j] : short(v), button = lead(text, spec.leads[i][j], go);
    if (spec.leads[i][j].cell === spec.chosen) button.setAttribute("aria-current", "true");
    return element("td", {className: `heat${shade(v)}`}, button);
  };
  const rows = spec.rows.map((name, i) => element("tr", {}, headed("row", [name]).firstChild,
    ...spec.columns.map((_, j) => cell(spec.values[i][j], i, j))));
  const shades = [...Array(SHADES).keys()].map(i => element("span", {className: `shade heat${i}`}));
  const scale = known.length ? [element("p", {className: "legend"}, short(low), ...shades, short(high), log ? " (logarithmic)" : "")] : [];
  const corner = `${spec.y} \\ ${spec.x}`;
  const table = element("table", {className: "heat", ariaLabel: spec.title},
    element("thead", {}, headed("col", [corner, ...spec.columns])), element("tbody", {}, ...rows));
  return element("section", {}, element("h2", {textContent: spec.title}), scrolled(table), ...scale);
};

// What stands above the charts, and below them.
export const headOf = (view, go) => [
  ...Object.entries(view.links).map(([text, values]) => element("p", {}, lead(text, values, go))),
  ...view.heats.map(spec => heatOf(spec, go)),
];

export const partsOf = (view, go) => [
  ...view.notes.map(text => element("p", {textContent: text})),
  ...view.pictures.map(({source, text}) => element("p", {}, element("img", {src: source, alt: text}))),
  ...view.tables.map(spec => tableOf(spec, go)),
];
