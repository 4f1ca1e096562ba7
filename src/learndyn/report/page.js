"use strict";
const value = (id) => document.getElementById(id)?.value ?? "";
const articles = [...document.querySelectorAll("article")];

// A study is shown if its words match and one of its claims is of the kind and the verdict; other
// claims are hidden. Filters other than the search leave out sweeps, which have no claims.
function filter() {
  const words = value("words").toLowerCase().split(/\s+/).filter(Boolean);
  const [paper, kind, verdict] = ["paper", "kind", "verdict"].map(value);
  let shown = 0;
  for (const article of articles) {
    let matching = 0;
    for (const row of article.querySelectorAll("tr[data-kind]")) {
      row.hidden = !((!kind || row.dataset.kind === kind) && (!verdict || row.dataset.status === verdict));
      matching += !row.hidden;
    }
    const found = words.every((word) => article.dataset.words.includes(word));
    article.hidden = !(found && (!paper || article.dataset.paper === paper)
      && (matching || !(kind || verdict)));
    shown += !article.hidden;
    if ((kind || verdict) && !article.hidden) article.querySelector("details").open = true;
  }
  document.getElementById("shown").textContent = `${shown} of ${articles.length} shown`;
}

document.querySelector("nav").hidden = false;
for (const field of document.querySelectorAll("nav input, nav select")) field.addEventListener("input", filter);
filter();
