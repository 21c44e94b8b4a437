#!/bin/sh
# Build and test targets that differ from the target branch; write files for the CI system to ci/.
set -eu
base=${1:-origin/main}
mkdir -p ci
exec modelbuild ci --since "$base" \
    --junit ci/junit.xml --summary ci/summary.md --profile ci/trace.json --build-event-json ci/events.jsonl
