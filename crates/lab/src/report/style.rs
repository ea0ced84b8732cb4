//! How the report looks, by day and by night.

/// The style sheet. Series have the colours `--s0` to `--s7`; neighbours differ in
/// lightness too, so that they can be told apart without colour.
pub const CSS: &str = "
:root { color-scheme: light dark; --bg: #fff; --fg: #1c2127; --dim: #5c6670; --line: #d9dee3;
  --soft: #f4f6f8; --good: #1a7f4b; --bad: #c0322b; --wait: #f3d9d6;
  --s0: #1f6fb2; --s1: #d3562b; --s2: #2c8a5e; --s3: #8b4fb0; --s4: #a67c00; --s5: #0f8b9b;
  --s6: #b8417f; --s7: #5b6b7a; }
@media (prefers-color-scheme: dark) { :root { --bg: #14181c; --fg: #e4e8ec; --dim: #98a3ae;
  --line: #323a42; --soft: #1d2329; --good: #4cc38a; --bad: #ff7a70; --wait: #4a2a28;
  --s0: #63aeea; --s1: #f08a5d; --s2: #5cc795; --s3: #c292e6; --s4: #dcb743; --s5: #4fc4d3;
  --s6: #ec86b9; --s7: #a5b2bf; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--fg);
  font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 26px; margin: 0; }
h2 { font-size: 21px; margin: 0 0 4px; }
h3 { font-size: 16px; margin: 28px 0 8px; }
.lead, .source, footer { color: var(--dim); margin: 4px 0 16px; }
.name { margin: 0 0 4px; }
section { border-top: 2px solid var(--line); margin-top: 40px; padding-top: 24px; }
a { color: var(--s0); }
code { font: 13px/1.4 ui-monospace, 'Liberation Mono', monospace; background: var(--soft);
  padding: 1px 5px; border-radius: 3px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 3px 12px 3px 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { color: var(--dim); font-weight: 600; vertical-align: bottom; }
.n { text-align: right; }
td:first-child { white-space: nowrap; }
table.summary { margin-top: 8px; font-size: 14px; }
tr.good td.v { color: var(--good); } tr.bad td.v { color: var(--bad); font-weight: 600; }
tr.none td { color: var(--dim); }
.badge { display: inline-block; font-size: 12px; padding: 0 8px; border-radius: 10px;
  border: 1px solid currentColor; white-space: nowrap; }
.badge.good { color: var(--good); } .badge.bad { color: var(--bad); }
.badge.none { color: var(--dim); }
.notes p { max-width: 75ch; margin: 0 0 10px; white-space: pre-line; }
details { margin: 8px 0; } summary { cursor: pointer; color: var(--dim); margin-bottom: 4px; }
figure { margin: 12px 0; } figcaption { color: var(--dim); font-size: 13px; margin-top: 2px; }
svg { display: block; max-width: 100%; height: auto; }
svg text { font: 12px system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', sans-serif;
  fill: var(--fg); font-variant-numeric: tabular-nums; }
svg .dim { fill: var(--dim); } svg .grid { stroke: var(--line); stroke-width: 1; }
svg .axis { stroke: var(--dim); stroke-width: 1; }
svg .curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
svg .thin { stroke-width: 1.2; fill: none; }
svg .mark { stroke: var(--bg); stroke-width: 1.5; }
svg .wait { fill: var(--wait); } svg .lane { fill: var(--soft); }
.c0 { --c: var(--s0); } .c1 { --c: var(--s1); } .c2 { --c: var(--s2); } .c3 { --c: var(--s3); }
.c4 { --c: var(--s4); } .c5 { --c: var(--s5); } .c6 { --c: var(--s6); } .c7 { --c: var(--s7); }
svg .stroke { stroke: var(--c); } svg .fill { fill: var(--c); }
svg .machine { fill: var(--bg); stroke: var(--s0); stroke-width: 1.5; }
svg .pod { fill: none; stroke: var(--line); stroke-dasharray: 4 3; }
svg .on { fill: #fff; }
@media (prefers-color-scheme: dark) { svg .on { fill: #14181c; } }
@media print { details > * { display: block; } }
";
