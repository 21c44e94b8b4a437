// The tests with their cases, measures and output.

const RESULT = { passed: "passed", failed: "failed", not_run: "not run" };

function tests(build) {
  if (!build.tests.length) return null;
  const order = { failed: 0, not_run: 1, passed: 2 };
  const sorted = build.tests.map((test, place) => [test, place]).sort(([a], [b]) => order[a.status] - order[b.status]);
  const parts = Object.keys(RESULT).map((status) => [status, build.tests.filter((test) => test.status === status).length]);
  return section("tests", "Tests",
    meter("Tests", parts.filter(([, number]) => number), (status) => RESULT[status]),
    sorted.map(([test, place]) => folded({ id: `test-${place}`, class: "block", open: test.status === "failed" },
      [badge(test.status, RESULT[test.status]), el("strong", {}, test.label),
        el("span", { class: "quiet" }, [test.config, count(test.cases.length, "case"),
          test.cached ? "cached" : duration(test.seconds), attempts(test)].filter(Boolean).join(" · "))],
      () => testContent(test))));
}

function attempts(test) {
  return test.attempts > 1 ? `${test.passed} of ${test.attempts} runs passed` : "";
}

function testContent(test) {
  return [
    test.reason && el("p", {}, test.reason),
    test.cases.length > 0 && table(`Cases of ${test.label}`, ["Case", "Result", ["Time", "number"], "Message"],
      test.cases.map((each) => [each.name, badge(each.status, RESULT[each.status]), duration(each.seconds),
        [each.message, each.place && [" ", code(each.place)]]])),
    Object.keys(test.measures).length > 0 && table(`Measures of ${test.label}`, ["Measure", ["Value", "number"]],
      Object.entries(test.measures).map(([name, value]) => [name, number(value)])),
    output("Output", test.output),
  ].flat().filter(Boolean);
}
