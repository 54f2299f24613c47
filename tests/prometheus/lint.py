"""Reads `/metrics` from standard input as Prometheus would, and holds it against its rules.

Prints one line for each rule that is broken; the families that were found go to the last line.
Rules: https://prometheus.io/docs/practices/naming and what `promtool check metrics` says.
"""

import re
import sys

from prometheus_client.parser import text_string_to_metric_families

text = sys.stdin.read()
problems = []


def say(problem):
    problems.append(problem)


if not text.endswith("\n"):
    say("the last line does not end")

names = []
for line in text.splitlines():
    if line.startswith("# TYPE "):
        names.append(line.split()[2])
for name in {name for name in names if names.count(name) > 1}:
    say(f"{name} is declared more than once")

families = list(text_string_to_metric_families(text))
for family in families:
    if not family.documentation.strip():
        say(f"{family.name}: no HELP")
    if family.type not in ("counter", "gauge", "histogram"):
        say(f"{family.name}: is of the type {family.type}")
    if not re.fullmatch(r"(gantry|process)(_[a-z0-9]+)+", family.name):
        say(f"{family.name}: is not a name of ours")
    if re.search(r"_(milliseconds|ms|minutes|kb|mb|kilobytes|percent)(_|$)", family.name):
        say(f"{family.name}: not in base units")
    if re.search(r"_(gauge|counter|histogram)(_|$)", family.name):
        say(f"{family.name}: its type is in its name")
    if family.type == "gauge" and family.name.endswith(("_total", "_count", "_sum", "_bucket")):
        say(f"{family.name}: a gauge with the name of a counter")
    if not family.samples:
        say(f"{family.name}: no sample")
    seen = set()
    for sample in family.samples:
        key = (sample.name, tuple(sorted(sample.labels.items())))
        if key in seen:
            say(f"{key}: twice")
        seen.add(key)
        if family.type == "counter" and not sample.name.endswith("_total"):
            say(f"{sample.name}: a counter without _total")
        if family.type in ("counter", "histogram") and sample.value < 0:
            say(f"{sample.name}: less than nothing")
        for label in sample.labels:
            if not re.fullmatch(r"[a-z][a-z0-9_]*", label):
                say(f"{sample.name}: label {label}")
    if family.type == "histogram":
        buckets = [s for s in family.samples if s.name.endswith("_bucket")]
        bounds = [float(s.labels["le"]) for s in buckets]
        if bounds != sorted(bounds) or not bounds or bounds[-1] != float("inf"):
            say(f"{family.name}: bounds {bounds}")
        values = [s.value for s in buckets]
        if values != sorted(values):
            say(f"{family.name}: buckets that do not add up: {values}")
        count = [s.value for s in family.samples if s.name.endswith("_count")]
        if count != values[-1:]:
            say(f"{family.name}: {count} were counted, {values[-1:]} are in buckets")
        if not any(s.name.endswith("_sum") for s in family.samples):
            say(f"{family.name}: no sum")

for problem in problems:
    print(problem)
print("families:", " ".join(sorted(family.name for family in families)))
sys.exit(1 if problems else 0)
