// The graph of actions, folded by target or package if there are many, and the list with each action's reason.

const LEVELS = {
  action: (action) => action.id,
  target: (action) => action.owner,
  package: (action) => action.owner.split(":")[0],
};
const MOST_BOXES = 60;
const MOST_BLOCKS = 100;
const BOX = { width: 216, height: 40, across: 70, down: 12 };
const RANKS = ["failed", "ran", "fetched", "cached"];

function actions(build) {
  if (!build.actions.length) return null;
  const levels = Object.keys(LEVELS);
  const counts = levels.map((level) => new Set(build.actions.map(LEVELS[level])).size);
  const level = levels[counts.findIndex((number) => number <= MOST_BOXES)] || "package";
  let graph = layout(build.actions, level);
  const drawing = zoomed("the graph", (width, factor) => drawGraph(graph, width, factor), 16);
  const choice = el("select", { change: () => { graph = layout(build.actions, choice.value); drawing.redraw(); } },
    levels.map((each, i) => el("option", { value: each, selected: each === level }, `${count(counts[i], each)}`)));
  return section("actions", "Actions",
    el("div", { class: "line" },
      el("p", {}, "Each box reads what the boxes to its left made. Its stripe shows how many of its actions failed, ran, or were cached."),
      el("label", {}, "Boxes ", choice), drawing.buttons),
    drawing.area,
    actionList(build));
}

/** Return boxes with their column and place in it, and edges between them. */
function layout(all, level) {
  const boxes = [...groupBy(all.map((_, place) => place), (place) => LEVELS[level](all[place]))].map(([name, members]) =>
    ({ name, members, before: new Set(), after: new Set(), column: 0, place: 0 }));
  const boxOf = new Map(boxes.flatMap((box) => box.members.map((member) => [member, box])));
  for (const box of boxes) {
    for (const maker of box.members.flatMap((member) => all[member].makers || [])) {
      const other = boxOf.get(maker);
      if (other !== box) { box.before.add(other); other.after.add(box); }
    }
  }
  // Boxes of several actions may depend on each other in a circle: then the first of them comes first.
  const missing = new Map(boxes.map((box) => [box, box.before.size]));
  const free = new Set(boxes.filter((box) => !box.before.size));
  const columns = [];
  while (missing.size) {
    const box = free.values().next().value || missing.keys().next().value;
    free.delete(box);
    missing.delete(box);
    (columns[box.column] ||= []).push(box);
    for (const reader of box.after) {
      if (!missing.has(reader)) continue;
      reader.column = Math.max(reader.column, box.column + 1);
      missing.set(reader, missing.get(reader) - 1);
      if (missing.get(reader) === 0) free.add(reader);
    }
  }
  for (let sweep = 0; sweep < 4; sweep++) {
    for (const column of columns) {
      column.forEach((box, place) => { box.place = place; });
    }
    for (const column of columns) {
      const middle = new Map(column.map((box) => [box, average([...box.before, ...box.after].map((each) => each.place), box.place)]));
      column.sort((a, b) => middle.get(a) - middle.get(b));
      column.forEach((box, place) => { box.place = place; });
    }
  }
  for (const box of boxes) box.count = statuses(box.members.map((member) => all[member]));
  return { all, boxes, columns };
}

function average(numbers, otherwise) {
  return numbers.length ? sum(numbers) / numbers.length : otherwise;
}

function statuses(members) {
  return RANKS.map((status) => [status, members.filter((action) => action.status === status).length]).filter(([, n]) => n);
}

function drawGraph({ all, boxes, columns }, width, factor) {
  const tallest = Math.max(...columns.map((column) => column.length));
  const [wide, high] = [columns.length * (BOX.width + BOX.across) - BOX.across + 4, tallest * (BOX.height + BOX.down) + 4];
  const scale = Math.max(Math.min(1, width / wide), 0.7) * factor;
  const at = (box) => [2 + box.column * (BOX.width + BOX.across),
    2 + (box.place + (tallest - columns[box.column].length) / 2) * (BOX.height + BOX.down)];
  const lines = new Map(boxes.map((box) => [box, []]));
  const edges = boxes.flatMap((box) => [...box.before].map((other) => {
    const [[x, y], [x2, y2]] = [at(other), at(box)];
    const [from, to, middle] = [x + BOX.width, x2, BOX.height / 2];
    const bend = Math.max(30, Math.abs(to - from) / 2);
    const line = svg("path", { class: "edge", d: `M${from} ${y + middle}C${from + bend} ${y + middle} ${to - bend} ${y2 + middle} ${to} ${y2 + middle}` });
    lines.get(box).push(line);
    lines.get(other).push(line);
    return line;
  }));
  const mark = (box, on) => lines.get(box).forEach((line) => line.classList.toggle("near", on));
  return svg("svg", { width: wide * scale, height: high * scale, viewBox: `0 0 ${wide} ${high}`, role: "img",
    "aria-label": "The graph of actions; the list below has the same as text" },
    edges, boxes.map((box) => drawBox(box, all, at(box), mark)));
}

function drawBox(box, all, [x, y], mark) {
  const members = box.members.map((member) => all[member]);
  const single = members.length === 1 && members[0];
  const seconds = sum(members.map((action) => action.end - action.start));
  const what = single ? `${single.status}${seconds ? ` · ${duration(seconds)}` : ""}${single.reason ? ` · ${single.reason}` : ""}`
    : `${count(members.length, "action")}${seconds ? ` · ${duration(seconds)}` : ""}`;
  let top = y;
  const stripe = box.count.map(([status, number]) => {
    const part = svg("rect", { x, y: top, width: 6, height: BOX.height * number / members.length, class: status });
    top += BOX.height * number / members.length;
    return part;
  });
  return svg("a", { class: "box", href: single ? `#action-${box.members[0]}` : `#find=${encodeURIComponent(box.name)}`, tabindex: -1,
    mouseenter: () => mark(box, true), mouseleave: () => mark(box, false) },
    svg("title", {}, `${box.name}\n${what}${single && single.why ? `\n${single.why.join("\n")}` : ""}`),
    svg("rect", { x, y, width: BOX.width, height: BOX.height, class: "frame" }), stripe,
    svg("text", { x: x + 14, y: y + 17 }, shortened(box.name, 29)),
    svg("text", { x: x + 14, y: y + 33, class: "quiet" }, what));
}

function actionList(build) {
  const critical = criticalActions(build);
  const filters = { all: () => true, "critical path": (place) => critical.has(place) };
  for (const status of RANKS) filters[STATUS[status]] = (place) => build.actions[place].status === status;
  const places = build.actions.map((_, place) => place);
  const used = Object.keys(filters).filter((name) => places.some(filters[name]));
  const choice = el("select", { change: show }, used.map((name) => el("option", {}, name)));
  const words = el("input", { id: "find", type: "search", placeholder: "text of an action or a reason", input: show });
  const found = el("p", { class: "quiet", role: "status" });
  const list = el("div");
  function show() {
    const text = words.value.toLowerCase();
    const wanted = places.filter((place) => filters[choice.value](place) && matches(build.actions[place], text));
    found.textContent = `${count(wanted.length, "action")} shown`;
    const groups = [...groupBy(wanted, (place) => build.actions[place].owner)];
    const weight = ([, members]) => sum(members.map((place) => heaviness(build.actions[place])));
    groups.sort((a, b) => weight(b) - weight(a));
    const open = wanted.length <= 40 || groups.length === 1;
    const blocks = ([owner, members]) => targetBlock(build, owner, members, open);
    list.replaceChildren(...groups.slice(0, MOST_BLOCKS).map(blocks));
    const rest = groups.slice(MOST_BLOCKS);
    if (rest.length) list.append(folded({ class: "block" }, `and ${count(rest.length, "more target")}`, () => rest.map(blocks)));
  }
  show();
  return [el("div", { class: "line" }, el("label", {}, "Show ", choice), el("label", {}, "Find ", words), found), list];
}

function matches(action, text) {
  return !text || [action.id, action.description, action.reason, ...(action.why || [])].some((each) => (each || "").toLowerCase().includes(text));
}

/** Return a number that sorts failed actions first, and then those that took longest. */
function heaviness(action) {
  return (action.status === "failed" ? 1e9 : 0) + (action.end - action.start);
}

function targetBlock(build, owner, members, open) {
  const all = members.map((place) => build.actions[place]);
  const seconds = sum(all.map((action) => action.end - action.start));
  return folded({ class: "block", open: open && all.some((action) => action.status !== "cached") },
    [el("strong", {}, owner), statuses(all).map(([status, number]) => badge(status, `${number} ${STATUS[status]}`)),
      el("span", { class: "quiet" }, seconds ? duration(seconds) : "")],
    () => table(`Actions of ${owner}`, ["Action", "Result", ["Time", "number"], "Why"], members.map((place) => {
      const action = build.actions[place];
      return [el("a", { href: `#action-${place}` }, action.mnemonic, " ", action.description || ""),
        badge(action.status, STATUS[action.status]), action.end > action.start ? duration(action.end - action.start) : "",
        why(action)];
    })));
}

function why(action) {
  const lines = (action.why || []).map((line) => el("div", {}, line));
  return lines.length > 6 ? [lines.slice(0, 5), folded({}, `${lines.length - 5} more`, () => lines.slice(5))] : lines;
}

/** Return the details of an action, with links to those that it reads from and that read from it. */
function actionDetails(build, place) {
  const action = build.actions[place];
  const readers = build.actions.flatMap((each, reader) => (each.makers || []).includes(place) ? [reader] : []);
  const links = (places) => places.length > 12 ? folded({}, count(places.length, "action"), () => linkList(places)) : linkList(places);
  const linkList = (places) => el("ul", { class: "plain" }, places.map((each) =>
    el("li", {}, el("a", { href: `#action-${each}` }, build.actions[each].id))));
  const facts = [
    ["Result", badge(action.status, STATUS[action.status])],
    ["Why", why(action).length ? why(action) : "unknown"],
    action.end > action.start && ["Time", duration(action.end - action.start) +
      `, ${duration(action.start)} after the start, worker ${action.worker || 0}`],
    action.saved && ["Saved", duration(action.saved)],
    action.place && ["Ran on", `${action.place.worker}: queued ${duration(action.place.queued)}, inputs ${duration(action.place.fetching)}, ran ${duration(action.place.running)}, outputs ${duration(action.place.sending)}`],
    criticalActions(build).has(place) && ["Critical path", "yes"],
    ["Reads from", action.makers ? links(action.makers) : "files of the workspace only"],
    ["Read by", readers.length ? links(readers) : "no action"],
    action.key && ["Key", code(action.key)],
  ].filter(Boolean);
  return [
    el("div", { class: "line" }, el("h2", {}, action.id), el("button", { type: "button", click: closeDetails, "aria-label": "Close" }, "×")),
    action.description && el("p", {}, action.mnemonic, " ", action.description),
    el("dl", {}, facts.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    output("Problem", action.problem), output("stdout", action.stdout), output("stderr", action.stderr),
  ];
}
