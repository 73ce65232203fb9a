// The table of results on the page about the leaderboard: choose a row, search agents, sort by a column.

document.addEventListener("DOMContentLoaded", () => {
  for (const results of document.querySelectorAll(".results")) enliven(results);
});

function enliven(results) {
  const [choice, search, count] = ["select", "input", "output"].map((tag) => results.querySelector(tag));
  const body = results.querySelector("tbody");
  const lines = [...body.rows];
  const heads = [...results.querySelectorAll("th")];

  function filter() {
    const wanted = search.value.trim().toLowerCase();
    for (const line of lines) {
      const [row, , agent] = [...line.cells].map((cell) => cell.textContent);
      const chosen = choice.value ? row === choice.value : !row.startsWith("all rows");
      line.hidden = !(chosen && agent.toLowerCase().includes(wanted));
    }
    results.classList.toggle("one-row", choice.value !== "");
    results.classList.toggle("overall", choice.value.startsWith("all rows"));
    const shown = lines.filter((line) => !line.hidden).length;
    count.textContent = shown === 1 ? "1 result" : `${shown} results`;
  }

  function sort(head) {
    const ascending = head.ariaSort !== "ascending";
    for (const each of heads) each.ariaSort = each === head ? (ascending ? "ascending" : "descending") : "none";
    const column = heads.indexOf(head);
    const sorted = [...lines].sort((a, b) => compare(a.cells[column], b.cells[column], ascending ? 1 : -1));
    body.append(...sorted);
  }

  for (const head of heads) head.querySelector("button").addEventListener("click", () => sort(head));
  choice.addEventListener("change", filter);
  search.addEventListener("input", filter);
  filter();
}

// Unknown values come last in both directions.
function compare(a, b, direction) {
  const [first, second] = [a, b].map((cell) => cell.dataset.value ?? cell.textContent);
  if (first === "" || second === "") return (first === "") - (second === "");
  const numeric = "value" in a.dataset;
  return direction * (numeric ? first - second : first.localeCompare(second));
}
