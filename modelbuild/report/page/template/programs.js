// Each program: its partitions and the kernel calls between them, in the order of a run.

const PALETTE = 6;

function programs(all) {
  return all.length > 0 && section("programs", all.length === 1 ? "Program" : "Programs",
    all.map((program, place) => folded({ id: `program-${place}`, class: "block", open: all.length <= 4 },
      [el("strong", {}, program.label || program.path), program.config && el("span", { class: "quiet" }, program.config)],
      () => program.problem ? [el("p", {}, program.problem)] : programContent(program))));
}

function programContent(program) {
  const versions = Object.entries(program.versions || {}).map(([name, version]) => `${name} ${version}`).join(", ");
  const device = program.device && [program.device.arch, program.device.os, ...program.device.compute_capabilities].join(", ");
  const facts = [["File", code(program.path)], ["Size", size(program.bytes)],
    ...program.data.map((each) => ["Data", `${each.path}, ${size(each.bytes)}`]),
    device && ["Device", device], versions && ["Made with", versions]].filter(Boolean);
  return [
    el("dl", { class: "facts" }, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    ...program.methods.flatMap((method) => methodContent(method, program)),
    ...(program.folded.length ? [folded({}, `${count(sum(program.folded.map((each) => each.count)), "node")} outside partitions without a kernel call, such as assertions and views`,
      () => calls(program.folded, true))] : []),
  ];
}

function methodContent(method, program) {
  const backends = [...new Set(method.partitions.map((partition) => partition.backend))].sort();
  const colorOf = (stage) => stage.partition == null ? "kernels" : `backend${backends.indexOf(method.partitions[stage.partition].backend) % PALETTE}`;
  const partitionBytes = Math.max(1, ...method.partitions.map(weight));
  const kernels = sum(method.stages.filter((stage) => stage.partition == null).map((stage) => sum(stage.calls.map((call) => call.count))));
  const parts = backends.map((backend, i) => [`backend${i % PALETTE}`, method.partitions.filter((each) => each.backend === backend).length, backend]);
  const rows = method.stages.map((stage, place) => stageRow(stage, place, method, colorOf(stage), partitionBytes, program.left != null));
  const body = el("tbody", {}, rows);
  const rails = svg("svg", { class: "rails", "aria-hidden": "true" });
  const picture = el("div", { class: "flow scroll", tabindex: 0, role: "region", "aria-label": `Stages of ${method.name}` }, rails, el("table", {},
    el("caption", { class: "hidden" }, `Stages of ${method.name} in the order of a run`),
    el("thead", {}, el("tr", {}, ["", "Stage", "Reads from", "Operators, and why they are outside partitions", ["Size", "number"]].map((head) =>
      el("th", { scope: "col", class: [head].flat()[1] }, [head].flat()[0])))), body));
  const draw = () => drawRails(rails, method.stages, rows, colorOf);
  onResize(body, draw);
  return [
    el("h3", {}, `Method ${method.name}`),
    el("p", {}, `${ports(method.inputs)} → ${ports(method.outputs)}; ${size(method.planned_bytes)} of activations`),
    method.estimate && el("p", {}, `${(method.estimate.seconds * 1e3).toPrecision(3)} ms estimated for a call from host memory`,
      method.estimate.unknown.length > 0 && `, without ${method.estimate.unknown.join(", ")}`),
    el("div", { class: "strip", "aria-hidden": "true" }, method.stages.map((stage, place) => {
      const part = el("a", { class: colorOf(stage), href: `#stage-${place}`, tabindex: -1, title: stageName(stage, method) });
      part.style.flexGrow = stage.partition == null ? sum(stage.calls.map((call) => call.count)) : method.partitions[stage.partition].nodes || 1;
      part.addEventListener("click", (event) => { event.preventDefault(); rows[place].scrollIntoView({ block: "center", behavior: "smooth" }); });
      return part;
    })),
    el("p", {}, parts.map(([kind, number, backend]) => el("span", { class: "key" }, el("i", { class: kind }), `${count(number, "partition")} of ${backend}`)),
      kernels > 0 && el("span", { class: "key" }, el("i", { class: "kernels" }), `${count(kernels, "kernel call")} outside partitions`)),
    picture,
  ];
}

function ports(values) {
  return values.map((port) => `${port.name}: ${tensor(port)}`).join(", ") || "nothing";
}

function tensor(value) {
  if (value.kind !== "tensor") return value.constant == null ? value.kind : `${value.kind} ${value.constant}`;
  const sizes = value.shape.map((each) => typeof each === "number" ? (value.bounded ? `≤${each}` : each)
    : `${each.name ? `${each.name}=` : ""}${each.min}..${each.max}`);
  return `${value.dtype}[${sizes.join(", ")}]${value.device && value.device !== "cpu" ? ` on ${value.device}` : ""}`;
}

function weight(partition) {
  return partition.bytes + (partition.named_bytes || 0);
}

function stageName(stage, method) {
  if (stage.partition == null) return count(sum(stage.calls.map((call) => call.count)), "kernel call");
  const partition = method.partitions[stage.partition];
  return `${partition.id || `delegate ${partition.index}`}, ${partition.backend}`;
}

function stageRow(stage, place, method, color, most, known) {
  const after = [...(stage.inputs ? ["inputs"] : []), ...stage.after.map((each) => each + 1)].join(", ") || "–";
  const row = (name, content, bytes) => el("tr", { class: stage.partition == null ? "gap" : "part" },
    el("td", { class: "rail" }, ""), el("th", { scope: "row" }, el("span", { class: "quiet" }, `${place + 1} `), name),
    el("td", { class: "quiet" }, after), el("td", {}, content), el("td", { class: "number" }, bytes));
  if (stage.partition == null) return row(stageName(stage, method), calls(stage.calls, known), "");
  const partition = method.partitions[stage.partition];
  const share = el("div", { class: `share ${color}` });
  share.style.width = `${Math.max(1, 100 * weight(partition) / most)}%`;
  const operators = Object.entries(partition.operators || {});
  const blob = partition.blob && (partition.blob.problem || partition.blob.summary);
  return row([partition.id || `delegate ${partition.index}`, el("br"), badge(color, partition.backend)],
    [partition.nodes != null && el("div", {}, count(partition.nodes, "node"), operators.length > 0 && ": ", names(operators)),
      blob && el("div", {}, blob), partition.cost && cost(partition.cost),
      partition.arguments.length > 0 && folded({}, `${partition.arguments.length} inputs and outputs`, () =>
        el("ul", { class: "plain" }, partition.arguments.map((value) => el("li", {}, code(tensor(value))))))],
    [size(weight(partition)), share]);
}

function cost(found) {
  const time = (seconds) => `${(seconds * 1e3).toPrecision(3)} ms`;
  return folded({}, `${time(found.seconds)} estimated on ${found.device}, ${count(found.kernels, "kernel")}`, () => [
    el("p", { class: "quiet" }, found.basis),
    el("ul", { class: "plain" }, found.most_expensive.map((kernel) =>
      el("li", {}, `${time(kernel.seconds)}, ${size(kernel.bytes)}: ${kernel.operators.join(", ")} `, code(kernel.modules.join(", ")))))]);
}

function names(operators) {
  const shown = operators.slice(0, 5).map(([op, number]) => `${op}${number > 1 ? ` ×${number}` : ""}`).join(", ");
  const rest = operators.slice(5);
  return [shown, rest.length > 0 && folded({ class: "inline" }, `and ${count(rest.length, "more operator")}`, () =>
    el("span", {}, rest.map(([op, number]) => `${op}${number > 1 ? ` ×${number}` : ""}`).join(", ")))];
}

/** Return kernel calls, those with the same reasons together. */
function calls(all, known) {
  const groups = [...groupBy(all, (call) => call.reasons.map((reason) => `${reason.backend}: ${reason.why}`).join("; "))];
  const line = ([reason, members]) => el("div", { class: "why" },
    el("span", {}, members.map((call) => `${call.op}${call.count > 1 ? ` ×${call.count}` : ""}`).join(", ")),
    el("span", { class: "quiet" }, reason ? ` ${reason}` : known ? " no backend refused it" : ""));
  return groups.length > 4 ? [groups.slice(0, 3).map(line), folded({}, count(groups.length - 3, "more reason"), () => groups.slice(3).map(line))]
    : groups.map(line);
}

/** Draw a rail for each stage from its row to the last row that reads from it. */
function drawRails(rails, stages, rows, colorOf) {
  const middle = rows.map((row) => row.offsetTop + 16);
  const last = stages.map((_, place) => Math.max(place, ...stages.flatMap((stage, reader) => stage.after.includes(place) ? [reader] : [])));
  const ends = [];
  const lane = stages.map((_, place) => {
    if (last[place] <= place + 1) return 0;
    const free = ends.findIndex((end, i) => i > 0 && end <= place);
    const found = free > 0 ? free : Math.max(1, ends.length);
    ends[found] = last[place];
    return found;
  });
  const step = Math.min(12, 84 / Math.max(1, ends.length));
  const x = (number) => 12 + number * step;
  rails.setAttribute("height", rows.length ? rows.at(-1).offsetTop + rows.at(-1).offsetHeight : 0);
  rails.replaceChildren(
    ...stages.flatMap((stage, place) => stage.after.map((maker) => svg("path", { class: `rail ${colorOf(stages[maker])}`,
      d: maker === place - 1 ? `M${x(0)} ${middle[maker]}V${middle[place]}`
        : `M${x(0)} ${middle[maker]}C${x(lane[maker])} ${middle[maker]} ${x(lane[maker])} ${middle[maker]} ${x(lane[maker])} ${middle[maker] + 14}` +
          `V${middle[place] - 14}C${x(lane[maker])} ${middle[place]} ${x(lane[maker])} ${middle[place]} ${x(0)} ${middle[place]}` }))),
    ...stages.map((stage, place) => stage.partition == null
      ? svg("circle", { class: colorOf(stage), cx: x(0), cy: middle[place], r: 4.5 })
      : svg("rect", { class: colorOf(stage), x: x(0) - 6, y: middle[place] - 6, width: 12, height: 12, rx: 2 })));
}
