// A table whose columns sort its rows.

import { el } from "./elements.js";

/**
 * Make a button of every heading: numbers begin with the largest, words with the first; again turns
 * the order round. Rows without a number come last in both.
 * @param {HTMLTableElement} table with a head of one row
 */
export function makeSortable(table) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const text = heading.textContent;
    const onclick = () => sort(table, headings, column);
    const button = el("button", { type: "button", class: "quiet", "data-control": `sort ${text}`, onclick }, text);
    heading.replaceChildren(button);
  });
}

function sort(table, headings, column) {
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => ({ row, value: valueOf(row.cells[column].textContent) }));
  const isNumber = rows.some(({ value }) => typeof value === "number");
  const was = headings[column].getAttribute("aria-sort");
  const falls = was ? was === "ascending" : isNumber;
  for (const one of headings) one.removeAttribute("aria-sort");
  headings[column].setAttribute("aria-sort", falls ? "descending" : "ascending");
  const known = rows.filter(({ value }) => value !== null);
  known.sort((a, b) => (falls ? -1 : 1) * (isNumber ? a.value - b.value : a.value.localeCompare(b.value, "en", { numeric: true })));
  const unknown = rows.filter(({ value }) => value === null);
  body.append(...[...known, ...unknown].map(({ row }) => row));
}

/** A number as the table writes it, null for a dash, or the words. */
function valueOf(text) {
  if (text === "–" || text === "") return null;
  const number = Number(text.replace("−", "-").replace("+", ""));
  return Number.isNaN(number) ? text : number;
}
