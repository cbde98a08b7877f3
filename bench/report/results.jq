# Markdown of measurements, for bench/results. Input: the files, each with its `title`. Three schemas:
#
#   okv-bench-1    kv-bench (docs/benchmark-json.md)
#   okv-python-1   bench/python
#   okv-figures-1  figures of other programs, collected by hand: { "environment": { NAME: TEXT, … } or nothing, "tables": [
#                  { "columns": [TEXT, …], "rows": [ { "cells": [TEXT, …], "raw": [[NUMBER, …], …] or text }, … ] }, … ] }
#                  `raw` is what the cells summarize: a list for each side of a ratio. The page has their medians. Of
#                  other members, such as what each run measured, it shows nothing.

# ---- numbers and text ----

def thousands: tostring | [while(length > 0; .[:-3]) | .[-3:]] | reverse | join(",");

def fixed($digits):
  pow(10; $digits) as $scale
  | (. * $scale | round) as $all
  | ($all / $scale | floor | tostring) + "." + ("0000" + ($all % $scale | tostring))[-$digits:];

# Three significant digits or more.
def number:
  if . >= 1000 then round | thousands
  elif . >= 100 then fixed(1)
  elif . >= 10 then fixed(2)
  elif . >= 0.1 then fixed(3)
  else fixed(4) end;

def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;

# "1.041 (0.935 to 1.048)" of { median, min, max }. READs per get differ from 1 in the third decimal.
def spread(f): if . then "\(.median | f) (\(.min | f) to \(.max | f))" else "" end;

def spread: spread(number);

def middle: if . then .median | number else "" end;

def cell: gsub("\\|"; "\\|");

def row: "| " + join(" | ") + " |";

def table($columns; rows):
  [rows] | select(length > 0) | "", ($columns | row), ($columns | map("---") | "|" + join("|") + "|"), (.[] | row);

# ---- what a run was ----

def machine:
  .environment
  | "\(.cpu)\(if .emulated then ", emulated" elif .virtual then ", virtual" else "" end), "
    + "\(.cpus) CPUs, \(.kernel) \(.machine)";

def items:
  .parameters
  | (if .value_sizes == "fixed" then "\(.value_size)" else "\(.value_size_low) to \(.value_size)" end) as $values
  | "\(.records | thousands) items of \(.key_size) + \($values) bytes";

def mix: .parameters.mix | [to_entries[] | "\(.value)% \(.key)"] | join(", ");

def load:
  (if .parameters.floor then "floor" else mix end) as $what
  | .parameters
  | [$what]
    + [.distribution, "depth \(.depth)"]
    + [select(.get_many > 0) | "batches of \(.get_many)"]
    + [select(.rate > 0) | "\(.rate | number) operations/s offered"]
    + ["threads \([.threads] | flatten | map(tostring) | join(" and "))", "connections \(.connections)",
       "\(.rounds) rounds"]
  | join(", ");

def what: [.kind, .version] | map(select(. != "" and . != null and . != "okv")) | join(" ");

# "depth-1", or "one-get: redis-tcp (redis 7.0.15)" where the run has several targets.
def named($run):
  if $run.targets | length == 1 then $run.title
  else what as $what | "\($run.title): \(.name)" + (if $what == "" then "" else " (\($what))" end) end
  | cell;

# ---- the tables of runs ----

def environment_table:
  .[0] as $first
  | "| environment | |", "|---|---|", "| processors | \($first | machine | cell) |",
    "| date | \(map(.environment.date[:10]) | unique | join(", ")) |",
    "| okv | \(map("\(.version) \(.git)" | rtrimstr(" ")) | unique | join(", ")) |",
    ($first.environment.mtu | select(.) | "| path MTU | \(.) |"),
    (.[] | "| \(.title | cell) | \(items); \(load) |");

def server_cpu:
  .server_cpu_of_all_rounds
  // ([.rounds[] | .server_cpu? | select(.)]
      | select(length > 0) | { gets_ms: map(.gets_ms) | add, nothing_ms: map(.nothing_ms) | add })
  | "\(.gets_ms), \(.nothing_ms)";

# What kv-bench --floor measured.
def floors:
  table(["floor", "get / READ, p50", "get / READ, rate", "put / echo, p50", "READs per get",
         "p50 of get, READ, put, echo, us", "a second", "server CPU during gets, and idle, ms"];
    .[] as $run | $run.targets[] | .summary as $all | select($all.get_over_read)
    | [named($run), ($all.get_over_read | spread), ($all.get_rate_over_read | spread), ($all.put_over_echo | spread),
       ($all.reads_per_get | spread(fixed(4))),
       ([$all["get_p50_us", "read_p50_us", "put_p50_us", "echo_p50_us"] | middle] | join("; ")),
       ([$all["get_rate", "read_rate", "put_rate", "echo_rate"] | middle] | join("; ")), (server_cpu // "")]);

def operations: [.[].targets[].summary | keys[] | select(endswith("_p50_us")) | rtrimstr("_p50_us")] | unique;

# All other runs. Ratios are to the first target, round by round.
def others:
  map(select(.targets | all(.summary.get_over_read | not)))
  | operations as $operations
  | table(["run: target", "operations/s", ($operations[] | "\(.) p50, us", "\(.) p99, us", "\(.) p50 / first"),
           "READs per get", "CPU of client and server, us per operation"];
      .[] as $run | $run.targets[] | . as $target | .summary as $all
      | [named($run), ($all.operations_per_second | spread),
         ($operations[] | . as $name | ($all["\(.)_p50_us"] | middle), ($all["\(.)_p99_us"] | middle),
          (first($run.ratios[] | select(.target == $target.name and .figure == "\($name)_p50_us")) // null | spread)),
         ($all.reads_per_get // null | if . then .median | fixed(4) else "" end),
         ([$all["client_cpu_us_per_operation", "server_cpu_us_per_operation"] // null | middle]
          | map(select(. != "")) | join("; "))]);

def check($first):
  if machine == ($first | machine) then .
  else error("\(.title) and \($first.title) are of different machines") end;

def runs:
  select(length > 0) | .[0] as $first | map(check($first)) | environment_table, floors, others;

# ---- other schemas ----

def python_page:
  "| environment | |", "|---|---|", (.environment | to_entries[] | "| \(.key) | \(.value) |"),
  "| load | \(.value_size) bytes of value, rounds of \(.seconds) s |",
  table(["operations a second", "okv / redis", "okv", "redis"];
    .rates as $rates
    | $rates.okv | keys_unsorted[] as $work
    | ([$rates.okv[$work], $rates.redis[$work]] | transpose | map(.[0] / .[1])
       | { median: median, min: min, max: max }) as $ratio
    | [$work, ($ratio | spread), ($rates.okv[$work] | median | number), ($rates.redis[$work] | median | number)]);

def medians: .raw // "" | if type == "array" then map(median | number) | join("; ") else "" end;

def figures_page:
  (.environment // {} | select(length > 0) | "| environment | |", "|---|---|", (to_entries[] | "| \(.key) | \(.value) |")),
  (.tables[]
   | if .rows | any(.raw) then table(.columns + ["medians"]; .rows[] | .cells + [medians])
     else .columns as $columns | table($columns; .rows[].cells) end);

# ---- pages ----

def page:
  (map(select(.schema == "okv-bench-1")) | [runs]),
  (.[] | select(.schema == "okv-python-1") | [python_page]),
  (.[] | select(.schema == "okv-figures-1") | [figures_page])
  | select(length > 0);

# Of a floor the ratios, of other runs each operation of each target.
def short_table:
  . as $run
  | "okv \(.version), \(machine): \(items), depth \(.parameters.depth)" as $what
  | if .targets | any(.summary.get_over_read) then
      table([$what, "median (rounds)", "measured"];
        .targets[].summary
        | ["get / raw READ, p50", (.get_over_read | spread), "\(.get_p50_us | middle) and \(.read_p50_us | middle) us"],
          ["put / echo, p50", (.put_over_echo | spread), "\(.put_p50_us | middle) and \(.echo_p50_us | middle) us"],
          ["READs per get", (.reads_per_get | spread(fixed(4))), ""])
    else
      ([.] | operations) as $operations
      | table(["\($what); \(mix)", ($operations[] | "\(.) p50, us", "/ \($run.targets[0].name)")];
        .targets[] | . as $target
        | [([.name, (what | select(. != "") | "(\(.))")] | join(" ") | cell),
           ($operations[] | "\(.)_p50_us" | . as $figure | ($target.summary[$figure] | spread),
            (first($run.ratios[] | select(.target == $target.name and .figure == $figure)) // null | spread))])
    end;

def pages($kind):
  if $kind == "short" then [.[] | short_table] | .[1:][] else [page | if .[0] == "" then .[1:] else . end] | to_entries[] | (select(.key > 0) | ""), .value[] end;
