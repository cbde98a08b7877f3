# Markdown of kv-bench's JSON, for bench/results. Input: the runs, each with its `title`.

# Names of what a page shows, in their order, with their headings.
def rows:
  ["get_over_read", "get / READ, p50"],
  ["get_rate_over_read", "get / READ, rate"],
  ["put_over_echo", "put / echo, p50"],
  ["get_over_copy", "get / (copy and checksum), p50"],
  ["reads_per_get", "READs per get"],
  ["operations_per_second", "operations/s"],
  (("copy", "read", "get", "put", "echo", "insert", "delete", "rmw", "cas", "incr") as $name
    | [$name + "_p50_us", $name + " p50, us"], [$name + "_p99_us", $name + " p99, us"],
      [$name + "_p99_9_us", $name + " p99.9, us"]),
  ["read_rate", "READs/s"], ["get_rate", "gets/s"], ["put_rate", "puts/s"], ["echo_rate", "echoes/s"],
  ["client_cpu_us_per_operation", "client CPU, us per operation"],
  ["server_cpu_us_per_operation", "server CPU, us per operation"],
  ["wire_bytes_per_operation", "bytes on the wire per operation"];

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

# READs per get differ from 1 in the third decimal.
def exact($name): if $name == "reads_per_get" then fixed(4) else number end;

def spread($name): "\(.median | exact($name)) | \(.min | exact($name)) to \(.max | exact($name))";

def cell: gsub("\\|"; "\\|");

# ---- what a run was ----

def machine:
  .environment
  | "\(.cpu)\(if .emulated then ", emulated" elif .virtual then ", virtual" else "" end), "
    + "\(.cpus) CPUs, \(.kernel) \(.machine)";

def items:
  .parameters
  | (if .value_sizes == "fixed" then "\(.value_size)" else "\(.value_size_low) to \(.value_size)" end) as $values
  | "\(.records | thousands) items of \(.key_size) + \($values) bytes";

def load:
  .parameters
  | (if .floor then ["floor"] else .mix | [to_entries[] | "\(.value)% \(.key)"] end)
    + [.distribution, "depth \(.depth)"]
    + [select(.get_many > 0) | "batches of \(.get_many)"]
    + [select(.rate > 0) | "\(.rate | number) operations/s offered"]
    + ["threads \([.threads] | flatten | map(tostring) | join(" and "))", "connections \(.connections)",
       "\(.rounds) rounds"]
  | join(", ");

# ---- tables of one run ----

def target_table:
  . as $target
  | [.kind, .version, "over", .transport] | map(select(. != "")) | join(" ")
  | "", "**\($target.name | cell)**: \(.)", "", "| result | median | rounds |", "|---|---|---|",
    (rows as [$name, $text]
      | $target.summary[$name] | select(.) | "| \($text) | \(spread($name)) |");

def server_cpu:
  [.rounds[] | .server_cpu? | select(.)]
  | select(length > 0)
  | "| server CPU during gets, and as long idle | \(map(.gets_ms) | add) ms, "
    + "\(map(.nothing_ms) | add) ms | all rounds together |";

def ratio_table:
  select(.ratios | length > 0)
  | "", "Each divided by \(.ratios[0].to | cell), round by round:", "",
    "| target | result | ratio | rounds |", "|---|---|---|---|",
    (.ratios[]
      | .figure as $name
      | first(rows | select(.[0] == $name)) as [$_, $text]
      | "| \(.target | cell) | \($text) | \(spread("")) |");

def run_section:
  "", "## \(.title)", "", "`\(.environment.command | sub("^[^ ]*/"; ""))`", "", "\(items); \(load).",
  (.targets[] | target_table, server_cpu), ratio_table;

# ---- the digest: one row for each ratio, with what was measured in every round ----

# A target's path as far as it is of interest: "provider net".
def provider: (.path // "" | capture("(?<p>provider [^,]+)") | ", " + .p) // "";

def each($unit): "\(map(number) | join("; ")) \($unit)";

def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;

# Of two lists, a value for each round.
def digest_row($what; $run; $of; $to; $unit):
  [[$of, $to] | transpose[] | select(.[0] and .[1]) | .[0] / .[1]]
  | select(length > 0)
  | "| \($what | cell) | \($run.parameters.depth) | \(median | number) | \(map(number) | join("; ")) | "
    + "\($of | each($unit)) over \($to | each($unit)) |";

def digest_floor($run):
  [.rounds[] | select(.get_over_read)] as $rounds
  | select($rounds | length > 0)
  | "\(.name)\(provider)" as $name
  | digest_row("get / READ, p50: \($name)"; $run;
      [$rounds[].latency.get.p50_us]; [$rounds[].latency.read.p50_us]; "us"),
    digest_row("gets/s / READs/s: \($name)"; $run; [$rounds[].rate.get]; [$rounds[].rate.read]; "a second");

def digest_peers($run):
  [$run.targets[] | select(.kind != "okv" and (.summary.get_p50_us | not | not))] as $peers
  | select(.kind == "okv")
  | . as $okv
  | $peers[]
  | digest_row("\(.name) get / \($okv.name) get, p50\($okv | provider)"; $run;
      [.rounds[].latency.get.p50_us]; [$okv.rounds[].latency.get.p50_us]; "us");

def digest:
  "", "## Ratios", "",
  "| ratio | depth | median | in each round | measured in each round |", "|---|---|---|---|---|",
  (.[] as $run | $run.targets[] | digest_floor($run), digest_peers($run));

# ---- pages ----

def check($first):
  if machine == ($first | machine) then .
  else error("\(.title) and \($first.title) are of different machines") end;

def whole_page($kind):
  .[0] as $first
  | map(check($first))
  | "| environment | |", "|---|---|", "| processors | \($first | machine | cell) |",
    "| date | \(map(.environment.date[:10]) | unique | join(", ")) |",
    "| okv | \(map("\(.version) \(.git)" | rtrimstr(" ")) | unique | join(", ")) |",
    ($first.environment.mtu | select(.) | "| path MTU | \(.) |"),
    (select($kind == "digest") | digest),
    (.[] | run_section);

def short_rows:
  ["get_over_read", "get / raw READ, p50", "get_p50_us", "read_p50_us", "us"],
  ["put_over_echo", "put / echo, p50", "put_p50_us", "echo_p50_us", "us"];

def short_page:
  .[0] as $first
  | map(check($first))
  | "| \($first | machine | cell) | median | rounds: min to max | measured values |", "|---|---|---|---|",
    (.[] | . as $run | .targets[] | .summary as $all | select($all.get_over_read)
      | (short_rows as [$name, $text, $of, $to, $unit]
          | $all[$name] | select(.)
          | "| \($text), depth \($run.parameters.depth) | \(spread("")) | "
            + "\($all[$of].median | number) and \($all[$to].median | number) \($unit) |"),
        "| READs per get | \($all.reads_per_get | spread("reads_per_get")) | \($run | items) |");

def pages($kind): if $kind == "short" then short_page else whole_page($kind) end;
