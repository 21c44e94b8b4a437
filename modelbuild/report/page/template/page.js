// Puts the sections together, and follows addresses such as #action-3.

const data = JSON.parse(document.getElementById("data").textContent);
const build = data.build;

function closeDetails() {
  document.getElementById("details").hidden = true;
  history.replaceState(null, "", location.pathname + location.search);
}

/** Show what the address names: an action's details, a test, or the actions with some text. */
function follow() {
  const [, kind, place] = location.hash.match(/^#(action-|test-|find=)(.+)$/) || [];
  if (!build || !kind) return;
  if (kind === "find=") {
    const words = document.getElementById("find");
    words.value = decodeURIComponent(place);
    words.dispatchEvent(new Event("input"));
    words.scrollIntoView({ block: "center" });
  } else if (kind === "test-" && build.tests[place]) {
    const block = document.getElementById(`test-${place}`);
    block.open = true;
    block.scrollIntoView();
  } else if (kind === "action-" && build.actions[place]) {
    const details = document.getElementById("details");
    details.replaceChildren(...actionDetails(build, Number(place)).flat().filter(Boolean));
    details.hidden = false;
    details.scrollTop = 0;
  }
}

function show() {
  document.getElementById("top").append(...(build ? header(build) : [el("h1", {}, data.title)]));
  const sections = (build ? [failures(build), totals(build), timeline(build), actions(build), programs(data.programs),
    tests(build), devices(build), measures(build), targets(build)] : [profile(data.profile), programs(data.programs)]).filter(Boolean);
  document.getElementById("main").append(...sections);
  document.getElementById("contents").append(...sections.map((each) =>
    el("a", { href: `#${each.id}` }, each.querySelector("h2").textContent)));
  addEventListener("hashchange", follow);
  addEventListener("keydown", (event) => event.key === "Escape" && closeDetails());
  follow();
  drawings.forEach((draw) => draw());
  document.documentElement.dataset.ready = Math.round(performance.now());
}

show();
