//! How the page looks: light or dark as the reader likes it, light on paper.

pub(super) const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1d2125; --soft: #5b646d; --line: #d9dee3; --faint: \
#e9ecef; --paper: #fafaf8; --card: #fff; --warn: #fff4d6; --edge: #d9a406;
  --t0: #c2504f; --t1: #e3a24f; --t2: #3f8f63; --t3: #8274b8; --t4: #5aa9c4; --t5: #e4e4df; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --soft: #9ba4ad; --line: \
#363c42; --faint: #2a2f34; --paper: #14171a; --card: #1b1f23; --warn: #33290f; --edge: #b98c10;
  --t0: #b8524f; --t1: #c98a3d; --t2: #3f8f63; --t3: #7669ad; --t4: #4b93ad; --t5: #333a40; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, \
-apple-system, 'Segoe UI', 'Liberation Sans', sans-serif; }
main { max-width: 1320px; margin: 0 auto; padding: 36px 28px 72px; }
h1 { font-size: 31px; line-height: 1.18; margin: 0 0 8px; letter-spacing: -0.01em; max-width: \
30em; text-wrap: balance; }
h2 { font-size: 23px; margin: 52px 0 4px; padding-top: 18px; border-top: 1px solid var(--line); }
h2 span { color: var(--soft); font-weight: 400; margin-left: 8px; }
h3 { font-size: 17px; margin: 28px 0 6px; }
p { margin: 4px 0 14px; max-width: 96ch; }
.lead { color: var(--soft); max-width: none; }
.fine, small { color: var(--soft); font-size: 13.5px; }
.note { background: var(--warn); border-left: 4px solid var(--edge); padding: 7px 14px; margin: \
8px 0; max-width: none; }
a { color: inherit; text-decoration-color: var(--soft); text-underline-offset: 3px; }
code { background: var(--faint); padding: 1px 5px; border-radius: 4px; font-size: 13.5px; \
overflow-wrap: anywhere; }
.verdicts { list-style: none; padding: 0; margin: 14px 0 16px; display: grid; gap: 5px; }
.verdicts li { display: grid; grid-template-columns: 13.5em 1fr; }
.verdicts span { color: var(--soft); }
.verdicts .chip { margin-right: .4em; }
.chip { white-space: nowrap; font-weight: 600; }
.chip::before { content: ''; display: inline-block; width: .72em; height: .72em; border-radius: \
50%; background: var(--c); margin-right: .38em; }
.chip.oracle { font-style: italic; }
.chip.oracle::before { background: transparent; border: 2px solid var(--c); }
.chip.oracle::after { content: ' oracle'; font-weight: 400; color: var(--soft); }
.maps { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(600px, 100%), 1fr)); \
gap: 22px; align-items: start; }
table { border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums; \
font-size: 14.5px; }
.map { width: 100%; border-spacing: 3px; table-layout: fixed; }
.map thead th:first-child { width: 11.5em; } .map.full { grid-column: 1 / -1; }
.map .chip { display: inline-block; max-width: 100%; overflow: hidden; text-overflow: ellipsis; \
vertical-align: bottom; margin-right: .5em; }
.map td span { white-space: nowrap; margin-right: .35em; }
caption { text-align: left; font-weight: 600; font-size: 17px; padding: 0 0 2px 3px; }
caption span, th span, td span { font-weight: 400; color: var(--soft); font-size: 13.5px; }
th { text-align: left; font-weight: 500; }
.map thead th { font-weight: 400; color: var(--soft); padding: 0 10px; }
.map tbody th { padding: 6px 10px 6px 3px; line-height: 1.3; }
.map a { text-decoration: none; }
.map td { padding: 6px 10px; border-radius: 6px; line-height: 1.35; vertical-align: top; }
.map em { font-style: normal; font-weight: 600; white-space: nowrap; }
.win { background: color-mix(in srgb, var(--c) 17%, var(--card)); border-left: 4px solid var(--c); }
.win.untested { background: none; border-top: 1px solid var(--line); border-right: 1px solid \
var(--line); border-bottom: 1px solid var(--line); }
.alike { background: var(--faint); color: var(--soft); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(540px, 100%), 1fr)); \
gap: 18px; align-items: start; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 10px; \
padding: 14px 16px 8px; break-inside: avoid; }
figcaption { font-weight: 600; line-height: 1.35; margin-bottom: 8px; text-wrap: pretty; }
figcaption small { display: block; font-weight: 400; margin-top: 2px; }
svg [class] { color: var(--c); }
.legend b { font-weight: 400; white-space: nowrap; } .legend i { display: inline-block; width: \
10px; height: 10px; border-radius: 2px; margin: 0 4px 0 9px; }
.wide { overflow-x: auto; }
.numbers { background: var(--card); border: 1px solid var(--line); border-radius: 8px; min-width: \
60%; }
.numbers th, .numbers td { padding: 4px 12px; white-space: nowrap; vertical-align: top; }
.numbers thead th { font-weight: 600; border-bottom: 1px solid var(--line); }
.numbers thead th:nth-child(n+3), .numbers td { text-align: right; }
.numbers tbody:not(:first-of-type) tr:first-child > * { border-top: 1px solid var(--line); }
.numbers .sure { font-weight: 600; }
details { margin: 18px 0; } summary { cursor: pointer; font-weight: 600; margin-bottom: 8px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 18px; margin: 12px 0 20px; }
dt { color: var(--soft); } dt .chip { color: var(--ink); } dd { margin: 0; }
@media (max-width: 640px) { main { padding: 20px 14px 48px; } dl { grid-template-columns: 1fr; } \
h1 { font-size: 24px; } }
@media print { :root { color-scheme: light; --paper: #fff; } main { max-width: none; padding: 0; } \
body { font-size: 12px; } h1 { font-size: 22px; } h2 { break-after: avoid; }
  .plots { grid-template-columns: 1fr 1fr; } .win, .bar, .part, i { print-color-adjust: exact; \
  -webkit-print-color-adjust: exact; } details:not([open]) { display: none; } tr { break-inside: \
  avoid; } }
";
