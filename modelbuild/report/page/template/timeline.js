// Actions over time: one row for the critical path, one for starts of workers, one for each worker.

const ROW = 26;
const LEFT = 118;

function timeline(build) {
  const ran = build.actions.map((action, place) => ({ ...action, place })).filter((action) => action.end > action.start);
  if (!ran.length) return null;
  const critical = criticalActions(build);
  const workers = [...groupBy(ran, (action) => action.worker || 0)].sort(([a], [b]) => a - b);
  const path = build.critical.map((each) => each.modules ? each : { ...build.actions[each.action], ...each, place: each.action });
  const rows = [
    ["critical path", path], ...lanes(build.starts).map((lane) => ["starts of workers", lane]),
    ...workers.map(([worker, actions]) => [`worker ${worker}`, actions]),
  ];
  const first = Math.min(...[...ran, ...build.starts].map((each) => each.start));
  const last = Math.max(...ran.map((each) => each.end));
  const drawing = zoomed("the timeline", (width, factor) => drawTimeline(rows, critical, first, last, (width - LEFT - 8) * factor));
  const seconds = sum(path.map((each) => each.end - each.start));
  return section("timeline", "Timeline",
    el("div", { class: "line" },
      el("p", {}, `The critical path took ${duration(seconds)} of ${duration(last - first)}: `,
        path.map((each, i) => [i > 0 && " → ", each.modules ? startName(each) : el("a", { href: `#action-${each.place}` },
          `${each.mnemonic} ${each.owner}`), ` (${duration(each.end - each.start)})`])),
      drawing.buttons),
    drawing.area,
    el("p", { class: "quiet" }, "Click an action for its details. Ctrl and the mouse wheel zoom. Actions lists the same as text."));
}

/** Return the places of the actions on the critical path. */
function criticalActions(build) {
  return new Set(build.critical.map((each) => each.action));
}

function startName(start) {
  return `start of a worker${start.modules.length ? ` with ${start.modules.join(", ")}` : ""}`;
}

/** Return rows in each of which nothing overlaps. */
function lanes(spans) {
  const found = [];
  for (const span of [...spans].sort((a, b) => a.start - b.start)) {
    const free = found.find((lane) => lane.at(-1).end <= span.start);
    if (free) free.push(span);
    else found.push([span]);
  }
  return found;
}

function drawTimeline(rows, critical, first, last, width) {
  const scale = width / (last - first);
  const x = (at) => LEFT + (at - first) * scale;
  const height = (rows.length + 1) * ROW;
  const step = tick((last - first) / Math.max(2, width / 110));
  const ticks = Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, i) => i * step);
  return svg("svg", { width: width + LEFT + 8, height, role: "img", "aria-label": "Actions over time, by worker" },
    ticks.map((at) => svg("g", { class: "tick" },
      svg("path", { d: `M${x(first + at)} ${ROW - 6}V${height}` }),
      svg("text", { x: x(first + at) + 3, y: ROW - 10 }, `${+at.toFixed(3)} s`))),
    rows.map(([name, spans], row) => svg("g", { transform: `translate(0 ${(row + 1) * ROW})` },
      svg("text", { x: 0, y: 17, class: "row" }, name),
      spans.map((span) => bar(span, x(span.start), Math.max(1.5, (span.end - span.start) * scale), critical, row)))));
}

function bar(span, x, width, critical, row) {
  const name = span.modules ? startName(span) : `${span.mnemonic} ${span.owner} ${span.description || ""}`;
  const kind = span.modules ? "start" : critical.has(span.place) ? `${span.status} critical` : span.status;
  const shown = width > 34 && svg("text", { x: x + 5, y: 17 }, shortened(name, Math.floor((width - 8) / 6.4)));
  const content = [svg("title", {}, `${name}\n${duration(span.end - span.start)}`),
    svg("rect", { x, y: 3, width, height: ROW - 5, rx: Math.min(3, width / 2), class: kind }), shown];
  return span.modules ? svg("g", { class: "span" }, content)
    : svg("a", { href: `#action-${span.place}`, class: "span", tabindex: -1, "data-row": row }, content);
}

/** Return the least of 1, 2, 5, 10, ... (and tenths) that is not below a number. */
function tick(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((each) => each * power >= least * 0.999);
}
