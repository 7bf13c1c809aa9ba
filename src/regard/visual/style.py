"""How our pages look: one style sheet, put into each page, light or dark as the reader likes."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fcfbf8; --card: #f4f2ec; --ink: #1f2126; --muted: #666a73; --line: #e3e0d7;
  --accent: #00639c; --good: #00704f;
  --serif: "Iowan Old Style", "Palatino Linotype", Palatino, "Book Antiqua", Georgia, serif;
  --sans: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  --mono: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #16181c; --card: #1e2126; --ink: #e6e4de; --muted: #9da1aa; --line: #2f3339;
    --accent: #6cbcec; --good: #4fc3a0;
  }
  /* the one colour of the charts that is dim on a dark page */
  .curves [stroke="#0072B2"] { stroke: #3f9edb; }
  .curves [fill="#0072B2"] { fill: #3f9edb; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.6 var(--sans); font-variant-numeric: tabular-nums;
}
main {
  max-width: 64rem; margin: 0 auto; padding: clamp(1.5rem, 5vw, 4rem) clamp(1rem, 4vw, 2.5rem);
}
h1, h2 { font-family: var(--serif); font-weight: 600; line-height: 1.2; text-wrap: balance; }
h1 { margin: 0; font-size: clamp(1.8rem, 5vw, 2.7rem); overflow-wrap: anywhere; }
h2 { margin: 0 0 1rem; font-size: 1.35rem; }
section { margin-top: clamp(2.25rem, 5vw, 3.5rem); }

.facts {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: 1px;
  margin: 2rem 0 0; border-block: 1px solid var(--line); overflow: hidden;
}
.facts > div { padding: .9rem 1rem .9rem 0; }
.facts dt { color: var(--muted); font-size: .82rem; }
.facts dd { margin: .1rem 0 0; font-size: 1.2rem; line-height: 1.35; overflow-wrap: anywhere; }

.curves {
  display: grid; gap: 2.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr));
}
.curves figure { margin: 0; }
.curves svg { display: block; width: 100%; max-width: 36rem; height: auto; }
.curves svg[width] { width: auto; max-width: 100%; }  /* a matrix has cells of one size */

.scroll { overflow-x: auto; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 3px; }
table { border-collapse: collapse; min-width: min(100%, 34rem); font-size: .95rem; }
th, td {
  padding: .55rem 1.4rem .55rem 0; border-bottom: 1px solid var(--line);
  text-align: left; vertical-align: baseline;
}
th { color: var(--muted); font-size: .82rem; font-weight: 500; white-space: nowrap; }
th:last-child, td:last-child { padding-right: 0; }
tbody tr:last-child td { border-bottom: 0; }
.number { text-align: right; white-space: nowrap; }

.samples { margin: 0; padding: 0; list-style: none; display: grid; gap: .75rem; }
.samples li {
  padding: .9rem 1.1rem; background: var(--card); border-radius: .5rem; overflow-wrap: anywhere;
}
.samples p { margin: 0; }
.samples .source { color: var(--muted); font-size: .92rem; }
.samples .output { font-family: var(--serif); font-size: 1.15rem; line-height: 1.45; }
.samples .reference { margin-top: .25rem; font-size: .92rem; }
.samples span { color: var(--muted); font-family: var(--sans); font-size: .82rem; }
.samples .right { color: var(--good); margin-inline-start: .6rem; white-space: nowrap; }

summary {
  cursor: pointer; font-family: var(--serif); font-size: 1.35rem; font-weight: 600;
}
pre {
  margin: 1rem 0 0; padding: 1rem 1.1rem; background: var(--card); border-radius: .5rem;
  overflow-x: auto; font: .85rem/1.6 var(--mono); tab-size: 2;
}
@media print {
  body { font-size: 10pt; }
  main { max-width: none; padding: 0; }
  figure, tr, .samples li { break-inside: avoid; }
}
"""
