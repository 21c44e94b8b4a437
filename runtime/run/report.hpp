// The report of modelbuild-run: lines, or one JSON object, in the format of `python -m modelbuild_runtime`.
#pragma once

#include <string>
#include <vector>

#include "api/runtime.hpp"

namespace modelbuild {

struct Latency {  // milliseconds of run(), with prepared inputs
  int runs = 0;
  int warmup = 0;
  double min_ms = 0;
  double median_ms = 0;
  double p95_ms = 0;
  double max_ms = 0;
};

// Computes the latency from the times of all runs, at least one.
Latency latency_of(std::vector<double> times_ms, int warmup);

struct ReportedPort {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string path;  // of an output that was written
  int call = 0;      // of an output, counted from 1; 0 if there is only one call
  std::string method;
};

struct Report {
  std::string program;
  std::string method;  // of the first call, as `inputs` are
  std::vector<ReportedPort> inputs;
  std::vector<ReportedPort> outputs;
  double first_ms = 0;  // of loading the program, and of its first run; in the JSON object only
  std::optional<Latency> latency;
  Transfers transfers;
  std::optional<GraphCounts> graphs;
  std::optional<std::int64_t> peak_memory;  // bytes; in the JSON object only
};

std::string text(const Report& report);
std::string json(const Report& report);

// The description of a program, and the requirements that this machine does not meet.
std::string text(const Description& program, const std::vector<std::string>& unmet);
std::string json(const Description& program, const std::vector<std::string>& unmet);

}  // namespace modelbuild
