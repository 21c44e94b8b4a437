"use strict";
// Makes elements. Texts of the data become text nodes and attributes of known names, never markup.

addEventListener("error", (event) => showProblem(event.message));

function showProblem(text) {
  const place = document.getElementById("script-error");
  place.hidden = false;
  place.textContent = `This report could not be shown completely: ${text}`;
}

const SVG = "http://www.w3.org/2000/svg";

/** Return an element with attributes and children; a function among the attributes listens to the event of its name. */
function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false && child !== ""));
  return element;
}

function section(id, title, ...children) {
  return el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), children);
}

/** Return a table. Each column is a title, or a title and the class of its cells; each row is its cells. */
function table(caption, columns, rows) {
  const heads = columns.map((column) => [column].flat());
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    el("table", {},
      el("caption", { class: "hidden" }, caption),
      el("thead", {}, el("tr", {}, heads.map(([title, kind]) => el("th", { scope: "col", class: kind }, title)))),
      el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell, i) =>
        i ? el("td", { class: heads[i][1] }, cell) : el("th", { scope: "row", class: heads[i][1] }, cell)))))));
}

/** Return a block that makes its content when it is first opened. */
function folded(attributes, summary, content) {
  const block = el("details", { ...attributes, toggle: fill }, el("summary", {}, summary));
  let made = false;
  function fill() {
    if (block.open && !made) {
      made = true;
      block.append(...[content()].flat());
    }
  }
  fill();
  return block;
}

function badge(kind, text) {
  return el("span", { class: `badge ${kind}` }, text);
}

function code(text) {
  return el("code", {}, text);
}

function output(title, text) {
  return text && text.trim() ? [el("h4", {}, title), el("pre", { tabindex: 0 }, text.trimEnd())] : [];
}

function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

function duration(seconds) {
  if (seconds < 0.0995) return `${seconds.toFixed(2)} s`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const two = (number) => String(number).padStart(2, "0");
  return whole < 3600 ? `${Math.floor(whole / 60)} min ${two(whole % 60)} s`
    : `${Math.floor(whole / 3600)} h ${two(Math.floor(whole / 60) % 60)} min`;
}

function size(bytes) {
  if (bytes < 1024) return count(bytes, "byte");
  const units = ["KiB", "MiB", "GiB", "TiB"];
  const step = Math.min(units.length, Math.floor(Math.log(bytes) / Math.log(1024)));
  return `${(bytes / 1024 ** step).toFixed(1)} ${units[step - 1]}`;
}

function shortened(text, most) {
  return text.length <= most ? text : `${text.slice(0, Math.ceil(most / 2) - 1)}…${text.slice(-Math.floor(most / 2))}`;
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

/** Return members by the key of each, in the order in which keys appear. */
function groupBy(members, keyOf) {
  const groups = new Map();
  for (const member of members) {
    const key = keyOf(member);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(member);
  }
  return groups;
}

const drawings = [];

/** Call a function when the page is put together, and when an element got another size. Not at once: what it draws may change the size again. */
function onResize(element, draw) {
  drawings.push(draw);
  new ResizeObserver(() => setTimeout(draw)).observe(element);
}

/** Return a scrolling area whose content `draw(width)` makes again at each zoom, and the buttons to zoom. */
function zoomed(label, draw, most = 64) {
  let factor = 1;
  const area = el("div", { class: "canvas", wheel });
  const buttons = el("div", { class: "tools", role: "group", "aria-label": `Zoom of ${label}` },
    [["Zoom out", "−", 0.5], ["Zoom in", "+", 2], ["Fit", "Fit", 0]].map(([title, text, by]) =>
      el("button", { type: "button", title, "aria-label": title, click: () => zoom(by, area.clientWidth / 2) }, text)));
  function zoom(by, at) {
    const place = (area.scrollLeft + at) / factor;
    factor = by ? Math.min(most, Math.max(1, factor * by)) : 1;
    area.replaceChildren(draw(area.clientWidth || 1000, factor));
    area.scrollLeft = place * factor - at;
  }
  function wheel(event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.25 : 0.8, event.clientX - area.getBoundingClientRect().left);
  }
  let width = 0;
  onResize(area, () => {
    if (area.clientWidth === width) return;
    width = area.clientWidth;
    zoom(1, 0);
    area.scrollTop = (area.scrollHeight - area.clientHeight) / 2;
  });
  return { area, buttons, redraw: () => zoom(1, 0) };
}
