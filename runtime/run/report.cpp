#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "api/one_line.hpp"

namespace modelbuild {
namespace {

using Json = nlohmann::ordered_json;

// Of both documents: a run's, and a description.
constexpr int kVersion = 1;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string found;
  for (const std::int64_t size : shape) found += (found.empty() ? "" : ", ") + std::to_string(size);
  return "[" + found + "]";
}

bool any(const Transfers& t) { return t.staged_in + t.staged_out + t.copied_in + t.copied_out != 0; }

}  // namespace

Latency latency_of(std::vector<double> times, int warmup) {
  std::sort(times.begin(), times.end());
  const std::size_t count = times.size();
  const double median = count % 2 == 1 ? times[count / 2] : (times[count / 2 - 1] + times[count / 2]) / 2;
  const auto p95 = static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(count))) - 1;
  return {static_cast<int>(count), warmup, times.front(), median, times[p95], times.back()};
}

std::string text(const Report& report) {
  std::string lines;
  for (const ReportedPort& port : report.inputs) {
    lines += "input  " + one_line(port.name) + ": " + port.dtype + shape_text(port.shape) + "\n";
  }
  for (const ReportedPort& port : report.outputs) {
    const std::string call = port.call > 0 ? " of call " + std::to_string(port.call) : "";
    lines += "output " + one_line(port.name) + call + ": " + port.dtype + shape_text(port.shape);
    lines += port.path.empty() ? "\n" : " -> " + one_line(port.path) + "\n";
  }
  if (any(report.transfers)) {
    const Transfers& t = report.transfers;
    lines += "moved each run: " + std::to_string(t.staged_in + t.copied_in) + " bytes to the device, " +
             std::to_string(t.staged_out + t.copied_out) + " back\n";
  }
  if (report.graphs) {
    lines += "CUDA graphs: " + std::to_string(report.graphs->recorded) + " recorded, " +
             std::to_string(report.graphs->replayed) + " runs replayed\n";
  }
  if (report.latency) {
    char line[160];
    std::snprintf(line, sizeof line, "latency %.3f ms median, %.3f min, %.3f p95 (%d runs after %d)\n",
                  report.latency->median_ms, report.latency->min_ms, report.latency->p95_ms, report.latency->runs,
                  report.latency->warmup);
    lines += line;
  }
  return lines;
}

std::string json(const Report& report) {
  Json inputs = Json::array();
  Json outputs = Json::array();
  for (const ReportedPort& port : report.inputs) {
    inputs.push_back({{"name", port.name}, {"dtype", port.dtype}, {"shape", port.shape}});
  }
  for (const ReportedPort& port : report.outputs) {
    Json path = port.path.empty() ? Json() : Json(port.path);
    outputs.push_back({{"name", port.name}, {"dtype", port.dtype}, {"shape", port.shape}, {"path", path}});
    if (port.call == 0) continue;
    outputs.back()["call"] = port.call;
    outputs.back()["method"] = port.method;
  }
  const Transfers& t = report.transfers;
  Json found = {{"version", kVersion},
                {"program", report.program},
                {"method", report.method},
                {"inputs", inputs},
                {"outputs", outputs}};
  found["first_ms"] = report.first_ms;
  found["latency"] = nullptr;
  if (const auto& l = report.latency) {
    found["latency"] = {{"runs", l->runs},           {"warmup", l->warmup}, {"min_ms", l->min_ms},
                        {"median_ms", l->median_ms}, {"p95_ms", l->p95_ms}, {"max_ms", l->max_ms}};
  }
  found["transfers"] = {{"staged_in", t.staged_in},
                        {"staged_out", t.staged_out},
                        {"copied_in", t.copied_in},
                        {"copied_out", t.copied_out}};
  found["peak_memory"] = report.peak_memory ? Json(*report.peak_memory) : Json();
  if (const auto& graphs = report.graphs) {
    found["cuda_graphs"] = {{"recorded", graphs->recorded}, {"replayed", graphs->replayed}};
  }
  return found.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

std::string text(const Description& program, const std::vector<std::string>& unmet) {
  std::string lines = program.text() + "\n";
  for (const std::string& line : unmet) lines += "  this machine cannot run it: " + one_line(line) + "\n";
  return lines;
}

std::string json(const Description& program, const std::vector<std::string>& unmet) {
  Json found = {{"version", kVersion}};
  found.update(Json::parse(program.json()));
  found["unmet"] = unmet;
  return found.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace modelbuild
