// The time of each operator and partition of a program, from a profile of its runs.

const MOST_INSTRUCTIONS = 25;

function profile(found) {
  if (!found) return null;
  const instructions = found.rows.filter((row) => row.kind !== "event").sort((a, b) => b.median_us - a.median_us);
  const inner = groupBy(found.rows.filter((row) => row.kind === "event"), placeOf);
  const kernels = instructions.filter((row) => row.kind === "operator");
  const parts = [["ran", instructions.filter((row) => row.kind === "partition"), "partitions"], ["cached", kernels, "operators outside partitions"]];
  return section("profile", "Profile",
    el("p", {}, `Method ${found.method}: a run takes ${microseconds(found.run_us)}, the median of ${count(found.runs, "run")}. `,
      parts.map(([kind, rows, name]) => el("span", { class: "key" }, el("i", { class: kind }), `${percent(sum(rows.map((row) => row.share)))} in ${name}`))),
    instructionTable(instructions.slice(0, MOST_INSTRUCTIONS), inner),
    instructions.length > MOST_INSTRUCTIONS && folded({},
      `${instructions.length - MOST_INSTRUCTIONS} more with ${percent(sum(instructions.slice(MOST_INSTRUCTIONS).map((row) => row.share)))} of the time`,
      () => instructionTable(instructions.slice(MOST_INSTRUCTIONS), inner)));
}

function instructionTable(rows, inner) {
  const most = Math.max(...rows.map((row) => row.share));
  return table("Times of operators and partitions",
    ["Operator or partition", "Backend", ["Calls", "number"], ["Median time", "number"], ["Share", "number"], "Nodes and their modules"],
    rows.map((row) => {
      const share = el("div", { class: `share ${row.kind === "partition" ? "ran" : "cached"}` });
      share.style.width = `${Math.max(1, 100 * row.share / most)}%`;
      return [row.name, row.backend, row.calls, microseconds(row.median_us), [percent(row.share), share],
        [shortened(row.nodes.join(", "), 80), el("div", { class: "quiet" }, shortened(row.modules.join(", "), 90)), events(inner.get(placeOf(row)) || [])]];
    }));
}

/** Return what a delegate reports of its own time. */
function events(rows) {
  return rows.length > 0 && folded({}, count(rows.length, "event"), () => table("Events of a partition",
    ["Event", ["Calls", "number"], ["Median time", "number"], ["Share", "number"]],
    rows.map((row) => [row.name, row.calls, microseconds(row.median_us), percent(row.share)])));
}

function placeOf(row) {
  return `${row.chain} ${row.instruction}`;
}

function microseconds(time) {
  return `${time.toLocaleString("en", { maximumFractionDigits: time < 100 ? 1 : 0 })} µs`;
}

function percent(share) {
  return `${(100 * share).toFixed(1)}%`;
}
