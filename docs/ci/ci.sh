#!/bin/sh
# Builds and tests what differs from the branch that a change is to go to; leaves what a CI system shows in ci/.
set -eu
base=${1:-origin/main}
mkdir -p ci
exec modelbuild ci --since "$base" \
    --junit ci/junit.xml --summary ci/summary.md --profile ci/trace.json --build-event-json ci/events.jsonl
