// The header, failures, targets and measures of a build.

const STATUS = { ran: "ran", cached: "cached here", fetched: "cached remotely", failed: "failed" };

function header(build) {
  const [kind, text] = build.seconds == null && !build.problem ? ["failed", "Not finished"]
    : build.interrupted ? ["failed", "Interrupted"]
    : !build.ok ? ["failed", "Failed"]
    : build.up_to_date ? ["cached", "Nothing to do"] : ["passed", "Passed"];
  const commit = build.commit && [code(build.commit.slice(0, 12)), build.changed && " with changes"];
  const facts = [
    ["Time", el("time", { datetime: new Date(build.time * 1000).toISOString() }, new Date(build.time * 1000).toLocaleString())],
    ["Duration", build.seconds == null ? "unknown" : duration(build.seconds)],
    build.exit != null && ["Exit code", String(build.exit)],
    ["Workspace", build.workspace],
    ["Commit", commit || "unknown"],
    build.jobs > 0 && ["Jobs", String(build.jobs)],
    ["modelbuild", build.modelbuild],
  ].filter(Boolean);
  return [
    el("div", { class: "title" }, badge(`${kind} large`, text), el("h1", {}, build.command)),
    el("dl", { class: "facts" }, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
  ];
}

function totals(build) {
  const { targets, unbuilt, actions, ran, local, remote, failed } = build.counts;
  const parts = [["failed", failed], ["ran", ran], ["fetched", remote], ["cached", local]];
  const rest = actions - sum(parts.map(([, number]) => number));
  const tile = (value, name) => el("div", { class: "tile" }, el("strong", {}, value), el("span", {}, name));
  return section("totals", "Totals",
    el("div", { class: "tiles" },
      targets + unbuilt > 0 && tile(targets.toLocaleString("en"), targets === 1 ? "target built" : "targets built"),
      unbuilt > 0 && tile(unbuilt.toLocaleString("en"), "not built"),
      tile(actions.toLocaleString("en"), actions === 1 ? "action" : "actions"),
      build.tests.length > 0 && tile(build.tests.length.toLocaleString("en"), build.tests.length === 1 ? "test" : "tests"),
      tile(duration(build.saved), "saved by caches")),
    rest < actions && meter("Actions", [...parts, ["rest", rest]].filter(([, number]) => number),
      (status) => STATUS[status] || "not run"),
    build.up_to_date && el("p", { class: "quiet" }, "Nothing changed since the last build, so no action was looked up."),
    build.notices.map((notice) => el("p", { class: "notice" }, notice)));
}

/** Return a bar of parts, each with its share, and a legend with their numbers. */
function meter(label, parts, name) {
  const total = sum(parts.map(([, number]) => number));
  return el("figure", { class: "meter", "aria-label": label },
    el("div", { class: "bar", "aria-hidden": "true" }, parts.map(([kind, number]) => {
      const part = el("span", { class: kind });
      part.style.flexGrow = number / total;
      return part;
    })),
    el("figcaption", {}, parts.map(([kind, number]) =>
      el("span", { class: "key" }, el("i", { class: kind }), `${number.toLocaleString("en")} ${name(kind)}`))));
}

function failures(build) {
  const actions = build.actions.map((action, number) => [action, number]).filter(([action]) => action.status === "failed");
  const tests = build.tests.filter((test) => test.status === "failed");
  const skipped = build.targets.filter((target) => target.location);
  const problem = build.problem && !build.interrupted ? [build.problem] : [];
  const number = actions.length + tests.length + skipped.length + problem.length;
  return number > 0 && section("failures", count(number, "failure"),
    problem.map((text) => el("article", { class: "failure" }, el("h3", {}, "The build stopped"), el("pre", {}, text))),
    skipped.map((target) => el("article", { class: "failure" },
      el("h3", {}, target.label), el("p", {}, code(target.location)), el("pre", { tabindex: 0 }, target.because))),
    actions.map(([action, place]) => el("article", { class: "failure" },
      el("h3", {}, el("a", { href: `#action-${place}` }, action.mnemonic, " ", action.owner)),
      el("pre", { tabindex: 0 }, (action.problem || "failed").trimEnd()),
      output("stdout", action.stdout), output("stderr", action.stderr))),
    tests.map((test) => el("article", { class: "failure" },
      el("h3", {}, el("a", { href: `#test-${build.tests.indexOf(test)}` }, test.label)),
      el("p", {}, test.reason),
      el("ul", {}, test.cases.filter((each) => each.status === "failed").map((each) =>
        el("li", {}, el("strong", {}, each.name), ": ", each.message, each.place && [" (", code(each.place), ")"]))))));
}

function targets(build) {
  return build.targets.length > 0 && section("targets", "Targets",
    table("Targets", ["Target", "Device", "Result", "Outputs"], build.targets.map((target) => [
      target.label, target.config || "", target.because ? badge("failed", "not built") : badge("passed", "built"),
      target.because && !target.location ? `${target.because} failed` : target.because
        || (target.outputs.length > 6 ? folded({}, count(target.outputs.length, "file"), () => paths(target.outputs))
          : paths(target.outputs))])));
}

function paths(outputs) {
  return el("ul", { class: "plain" }, outputs.map((path) => el("li", {}, code(path))));
}

function measures(build) {
  return compared("sizes", "Sizes and latencies", build.base, ["Subject"], (each) => [each.subject],
    build.measures.filter((each) => !each.device));
}

/** Return the measures of devices, the worst regression first. */
function devices(build) {
  const growth = (each) => each.unsure ? 0 : relative(each);
  return compared("devices", "On devices", build.base, ["Device", "Subject"], (each) => [each.device, each.subject],
    build.measures.filter((each) => each.device).sort((a, b) => growth(b) - growth(a)));
}

function compared(id, title, base, names, cells, rows) {
  if (!rows.length) return null;
  const worst = Math.max(...rows.map((each) => relative(each)).map(Math.abs), 0.01);
  const known = rows.some((each) => each.before != null);
  return section(id, title,
    table(`${title} beside earlier values`,
      [...names, "Measure", ["Now", "number"], ...(known ? [[base, "number"], ["Change", "number"], ""] : [])],
      rows.map((each) => [...cells(each), each.title, number(each.now), ...(known ? [
        each.before == null ? "" : number(each.before), change(each), changeBar(relative(each) / worst)] : [])])));
}

function relative(each) {
  return each.change ? (each.now - each.before) / each.before : 0;
}

function change(each) {
  if (!each.change) return each.before == null ? el("span", { class: "quiet" }, "new") : "";
  const kind = each.unsure ? "quiet" : relative(each) > 0 ? "worse" : "better";
  return el("span", { class: kind }, each.change, each.unsure && ` (${each.unsure})`);
}

/** Return a bar from the middle: to the right for more, to the left for less. */
function changeBar(share) {
  if (!share) return "";
  const width = Math.max(1, Math.abs(share) * 40);
  return svg("svg", { width: 82, height: 12, "aria-hidden": "true" },
    svg("path", { d: "M41 0V12", class: "axis" }),
    svg("rect", { x: share > 0 ? 41 : 41 - width, y: 2, width, height: 8, class: share > 0 ? "more" : "less" }));
}

function number(value) {
  return Number.isInteger(value) || value >= 1000 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(4));
}
