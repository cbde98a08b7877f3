# What bench/plot draws, taken out of files of `kv-bench --json` (docs/benchmark-json.md).
#
# picture($kind; $choice) makes of [{ file, run }] a picture:
#
#   { title, tag: what stands beside it, or null, x: AXIS, y: AXIS, mark: a y across which a line is drawn, or null,
#     lines: [LINE], caption: [text] }
#   AXIS { text, log, from, to, tics: [[value, text]] }
#   LINE { text: null when it is not in the legend, style, colour and dash: numbers from 0,
#          parts: [[[x, y, least, most]]]: runs of points that are joined }
#   styles: "line"; "joined", "beads": with its points, large and small; "spread": with its points, from
#   least to most; "dots"; "bar": from 0 to the right, points as those of a spread
#
# $choice is { title, operations, targets }: "" or [] where nothing was chosen. What a file lacks is an
# error whose text begins with the file's name.

def fail($file; $what): error("\($file): \($what)");

def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;

# Each once, in the order in which they came.
def once: reduce .[] as $item ([]; if index([$item]) == null then . + [$item] else . end);

# ---- what the files have ----

def checked:
    . as { $file, $run }
    | if ($run | type) != "object" or $run.schema != "okv-bench-1" then
          fail($file; "is not a file of kv-bench --json: its schema is not okv-bench-1")
      elif ($run.targets | type) != "array" or ($run.targets | length) == 0 then
          fail($file; "has no targets")
      else . end;

def good:
    if .target.outcome.good == true then .
    else fail(.file; "the run of '\(.name)' was not good: \(.target.outcome.why // "" | if . == "" then "it does not say why" else . end)")
    end;

# The targets that were chosen, with their files: [{ file, run, target, name }]. With $apart, what several
# files say of one target is told apart by their names.
def drawn($wanted; $apart):
    length as $files
    | map(checked)
    | .[0].file as $first
    | ([.[].run.targets[].name] | once) as $there
    | ($wanted - $there) as $absent
    | if $absent == [] then . else fail($first; "has no target '\($absent[0])'; there are \($there | join(", "))") end
    | [.[] | . as { $file, $run } | $run.targets[]
       | select($wanted == [] or ([.name] | inside($wanted)))
       | { $file, $run, target: ., name } | good
       | if $apart and $files > 1 then .name = "\($file | sub(".*/"; "") | sub("\\.json$"; "")): \(.name)" else . end];

# Of one that is drawn: its rounds, each with a number at $path.
def rounds($path; $hint):
    . as { $file, $name, $target }
    | ($target.rounds // [])
    | if length == 0 then fail($file; "'\($name)' has no rounds: is it of kv-bench --load-only?") else . end
    | [to_entries[] | .key as $number | .value
       | if ((try getpath($path) catch null) | type) == "number" then .
         else fail($file; "'\($name)' has no \($path | join(".")) in round \($number + 1)\($hint)") end];

# Of one that is drawn: the chosen operations, or all that it has latencies of.
def operations($chosen):
    . as { $file, $name }
    | [.target.rounds[]?.latency? // {} | to_entries[] | select(.value.count > 0) | .key] as $there
    | [("copy", "read", "get", "put", "insert", "delete", "rmw", "cas", "incr", "echo", "ping")
       | select([.] | inside($there))] as $there
    | if $there == [] then fail($file; "'\($name)' has no latencies: is it of kv-bench --load-only?")
      elif $chosen - $there != [] then
          fail($file; "'\($name)' has no latency of \(($chosen - $there)[0]); it has \($there | join(", "))")
      elif $chosen == [] then $there
      else $chosen end;

def value_bytes:
    . as { $file, $run }
    | $run.parameters
    | if .value_sizes == "fixed" and (.value_size | type) == "number" then .value_size
      else fail($file; "its values are not of one size but \(.value_sizes // "unknown")") end;

def clients:
    . as { $file, $run, $target }
    | $run.parameters
    | .threads = ($target.threads // .threads)
    | if (.threads | type) == "number" then .threads * (.connections // 1)
      else fail($file; "has no parameters.threads") end;

# ---- axes ----

def cut: . * 1000 | round / 1000 | tostring;
def short: if . >= 1e6 then "\(. / 1e6 | cut)M" elif . >= 1e3 then "\(. / 1e3 | cut)k" else cut end;
def microseconds: if . < 1e4 then cut else short end;

def axis($text): { $text, log: false, from: null, to: null, tics: [] };

# With marks at round numbers, more of them the shorter the axis; f makes their texts.
def log_axis($text; $least; $most; f):
    ([$least, 1e-3] | max) as $low
    | ([$most, $low] | max) as $high
    | ($high / $low) as $span
    | (if $span > 1000 then [1] elif $span > 20 then [1, 2, 5] elif $span > 4 then [1, 1.5, 2, 3, 5, 7]
       else [1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9] end) as $steps
    | [range($low | log10 | floor - 1; ($high | log10 | floor) + 2) as $power | $steps[] * pow(10; $power)
       | . * 1e6 | round / 1e6] as $marks
    | ([$marks[] | select(. < $low)] | last) as $from
    | ([$marks[] | select(. > $high)] | first) as $to
    | axis($text) + { log: true, $from, $to,
                       tics: [$marks[] | select(. >= $from and . <= $to) | [., f]] };

# Marks are multiples of one step, from the last of them below $least to the first above $most.
def linear_axis($text; $least; $most):
    (($most - $least) / 6) as $about
    | pow(10; $about | log10 | floor) as $power
    | ([(1, 2, 2.5, 5, 10) * $power | select(. >= $about)] | first) as $step
    | ($least / $step + 1e-6 | floor) as $from
    | ($most / $step - 1e-6 | ceil) as $to
    | axis($text) + { from: ($from * $step), to: ($to * $step), tics: [range($from; $to + 1) * $step | [., short]] };

# From zero, but where that would press the slow ones together.
def throughput_axis($text; $rates):
    ($rates | min) as $least
    | ($rates | max) as $most
    | if $least > 0 and $most > 20 * $least then log_axis($text; $least; $most; short)
      else linear_axis($text; 0; $most) end;

# Doublings, with a mark at each value that was measured.
def doubling_axis($text; f):
    once | sort | axis($text) + { log: true, from: (.[0] / 1.25), to: (last * 1.25), tics: map([., f]) };

def size_text:
    if . >= 1048576 and . % 1048576 == 0 then "\(. / 1048576)M"
    elif . >= 1024 and . % 1024 == 0 then "\(. / 1024)K"
    else tostring end;

# ---- below the picture ----

def part: tostring | if length > 70 then .[:67] + "..." else . end;

def machine:
    "\(.cpu // "unknown CPU" | part), \(.cpus // "?") CPUs, \(.kernel // "unknown kernel" | part)"
    + if .emulated == true then " (emulated)" elif .virtual == true then " (virtual)" else "" end;

# What was asked for, by a run's parameters: [[name, value]].
def asked:
    .run.parameters
    | (.mix // {} | to_entries | map("\(.value) % \(.key)") | join(", ")) as $mix
    | [if .floor then empty elif .workload then ["workload", .workload] else ["", $mix] end,
       ["", .distribution], ["records", .records], ["key bytes", .key_size],
       ["value bytes", if .value_sizes == "fixed" then .value_size else "\(.value_sizes) to \(.value_size)" end],
       ["threads", (.threads | if type == "array" then map(tostring) | join("/") else . end)], ["connections", .connections], ["depth", .depth],
       ["gets of a batch", .get_many], ["operations/s due", .rate], ["rounds", .rounds]]
    | map(select(.[1] | IN(null, 0, "") | not));

# Parts one after the other, in lines that fit below the picture.
def lines_of($parts):
    reduce $parts[] as $part ([];
        if . == [] or (last + "; " + $part | length) > 135 then . + [$part] else .[-1] += "; " + $part end);

# Of all runs together, as lines; what differs between them with all its values.
def asked_text:
    [.[] | asked[]]
    | [(map(.[0]) | once)[] as $name
       | $name + (if $name == "" then "" else " " end)
         + (map(select(.[0] == $name) | .[1]) | unique | map(tostring) | join(if $name == "" then ", " else "/" end))]
    | lines_of(.);

def caption:
    ([.[].run.environment.date // "" | .[:10]] | once | sort) as $dates
    | ([.[].run | "\(.program // "kv-bench") \(.version // "?")\(.git // "" | if . == "" then "" else " \(.[:12])" end)"]
       | once) as $programs
    | ([.[].run.environment | machine] | once) as $machines
    | [($programs | .[:3] | join(", ")) + "; " + ($dates | join(", ") | part)]
    + $machines[:2]
    + [if ($machines | length) > 2 then "and \(($machines | length) - 2) other machines" else empty end]
    + asked_text
    + [if any(.[].run.environment; .emulated == true) then
           "Emulated processors: compare figures of this picture with each other, not with another machine's."
       else empty end];

# ---- the pictures ----

# Colours tell targets apart and dashes operations; with one target, colours tell operations apart.
def coloured:
    ([.[].name] | once) as $names
    | ([.[].operation] | once) as $operations
    | map((.name as $name | $names | index([$name])) as $of_name
          | (.operation as $operation | $operations | index([$operation])) as $of_operation
          | .text = if ($operations | length) == 1 then .name else "\(.name) \(.operation)" end
          | if ($names | length) == 1 then .text = .operation | .colour = $of_operation | .dash = 0
            else .colour = $of_name | .dash = $of_operation end);

# Of one that is drawn: all rounds' histograms as [us, percent of operations that took no longer].
def distribution($operation):
    [rounds(["latency", $operation, "histogram", 0, 1]; "")[].latency[$operation]]
    | ([.[].min_us] | min) as $least
    | ([.[].histogram[]] | group_by(.[0]) | map([.[0][0], (map(.[1]) | add)])) as $buckets
    | ([$buckets[][1]] | add) as $all
    | [[$least, 0]] + [foreach $buckets[] as $bucket (0; . + $bucket[1]; [$bucket[0], 100 * . / $all])];

def cdf($choice):
    [drawn($choice.targets; true)[] | .name as $name | operations($choice.operations)[] as $operation
     | { $name, $operation, points: distribution($operation) }]
    | ([.[].points[] | select(.[1] > 0) | .[0]] | min) as $least
    | ([.[].points | map(select(.[1] >= 99)) | .[0][0]] | max) as $most
    | ([.[].operation] | once) as $operations
    | { title: ("Distribution of latencies" + if ($operations | length) == 1 then " of \($operations[0])" else "" end),
        x: log_axis("latency (us), up to the slowest p99"; $least; $most; microseconds),
        y: (axis("operations that took no longer (%)")
            + { from: 0, to: 100, tics: ([0, 25, 50, 75, 90, 99] | map([., tostring])) }),
        mark: null,
        lines: (coloured | map({ text, style: "line", colour, dash, parts: [.points] })) };

# Of several files: what f makes of each that is drawn, in one array for each name.
def by_name(f):
    ([.[].name] | once) as $names
    | [$names | to_entries[] | { name: .value, colour: .key }] as $curves
    | [.[] | . + f] as $points
    | [$curves[] | .name as $name | . + { points: [$points[] | select(.name == $name)] | sort_by(.order) }];

# Beyond what a target carries, more load brings fewer operations: points are joined in the order of what was
# asked for.
def load_offered:
    .target as $target | .run.parameters | if (.rate // 0) > 0 then .rate else ($target.threads // .threads // 1) * (.connections // 1) * (.depth // 1) end;

def load_point($chosen):
    . as $drawn
    | operations($chosen) as $there
    | (if $chosen != [] then $chosen[0] elif [ "get" ] | inside($there) then "get" else $there[0] end) as $operation
    | rounds(["operations_per_second"]; ": is it a run with --floor?") as $rounds
    | ($drawn | rounds(["latency", $operation, "p50_us"]; "")) as $_
    | ($drawn | rounds(["latency", $operation, "p99_us"]; "")) as $_
    | [$rounds[] | { x: .operations_per_second, p50: .latency[$operation].p50_us, p99: .latency[$operation].p99_us }]
    | { $operation, order: ($drawn | load_offered), rounds: ., x: (map(.x) | median), p50: (map(.p50) | median), p99: (map(.p99) | median) };

def load($choice):
    if ($choice.operations | length) > 1 then error("load draws one operation; name one with --operation") else . end
    | drawn($choice.targets; false) | by_name(load_point($choice.operations))
    | [.[].points[] | .x, .rounds[].x] as $x
    | [.[].points[].rounds[] | .p50, .p99] as $y
    | ([.[].points[].operation] | once | join(", ")) as $operation
    | { title: "Latency against throughput",
        x: throughput_axis("operations per second, all kinds"; $x),
        y: log_axis("latency of \($operation) (us)"; $y | min; $y | max; microseconds),
        mark: null,
        lines: [.[] | (
            { text: "\(.name) p50", style: "joined", colour, dash: 0, parts: [[.points[] | [.x, .p50]]] },
            { text: "\(.name) p99", style: "joined", colour, dash: 1, parts: [[.points[] | [.x, .p99]]] },
            (select(any(.points[].rounds; length > 1))
             | { text: null, style: "dots", colour, dash: 0, parts: [[.points[].rounds[] | [.x, .p50]]] },
               { text: null, style: "dots", colour, dash: 1, parts: [[.points[].rounds[] | [.x, .p99]]] }))] };

# Ratios of a get and a put to what they cannot be quicker than: 1 is the floor. Not every run has all: no READ
# fetches the longest values, no echo carries what does not fit a message, and peers have no floor.
def floor_figures: [
    { name: "get_over_read", operation: "get", text: "GET / READ, p50" },
    { name: "get_rate_over_read", operation: "get", text: "GET / READ, time of each", inverse: true },
    { name: "get_over_copy", operation: "get", text: "GET / copy and hash, p50" },
    { name: "put_over_echo", operation: "put", text: "PUT / echo, p50" }];

# Of those that are drawn, the ones with this figure.
def with_figure($figure): map(select(.target.rounds // [] | length > 0 and all(.[]; (.[$figure.name]? // 0) > 0)));

def floor_point($figure):
    . as $drawn
    | rounds([$figure.name]; ": is it a run with --floor, and with values that one READ fetches?")
    | [.[][$figure.name] | if $figure.inverse then 1 / . else . end]
    | { x: ($drawn | value_bytes), y: median, least: min, most: max } | .order = .x;

def floors($choice):
    ($choice.operations | if . == [] then ["get", "put"] else . end) as $operations
    | [floor_figures[] | select([.operation] | inside($operations))] as $figures
    | if $figures == [] then error("floor draws get and put; there is no figure of \($operations[0])") else . end
    | drawn($choice.targets; false) as $drawn
    | [$figures[] as $figure
       | $drawn | with_figure($figure) | by_name(floor_point($figure))[] | .operation = $figure.text]
    | if . == [] then $drawn[0] | floor_point($figures[0]) else . end # which says what is missing
    | [.[].points[]] as $points
    | { title: "Distance from the floor, by size of values",
        x: ([$points[].x] | doubling_axis("bytes of a value"; size_text)),
        y: linear_axis("ratio; 1 is the floor"; [0.8, ([$points[].least] | min * 10 | floor / 10)] | min;
                       [1.2, $points[].most] | max),
        mark: 1,
        lines: (coloured | map({ text, style: "spread", colour, dash,
                                 parts: [[.points[] | [.x, .y, .least, .most]]] })) };

def clients_point:
    . as $drawn
    | [rounds(["operations_per_second"]; ": is it a run with --floor?")[].operations_per_second]
    | { x: ($drawn | clients), y: median, least: min, most: max } | .order = .x;

def throughput($choice):
    drawn($choice.targets; false) | by_name(clients_point)
    | [.[].points[]] as $points
    | { title: "Throughput by number of clients",
        x: ([$points[].x] | doubling_axis("clients: threads x connections of each"; tostring)),
        y: throughput_axis("operations per second"; [$points[] | .least, .most]),
        mark: null,
        lines: map({ text: .name, style: "spread", colour, dash: 0,
                     parts: [[.points[] | [.x, .y, .least, .most]]] }) };

# The median and the ends of operations per second, or of the p50 of one operation.
def target_point($operation):
    if $operation == null then rounds(["operations_per_second"]; ": is it a run with --floor? name an operation")
        | map(.operations_per_second)
    else rounds(["latency", $operation, "p50_us"]; "") | map(.latency[$operation].p50_us) end
    | { x: median, least: min, most: max };

# A bar for each target, the first on top.
def beside($choice):
    if ($choice.operations | length) > 1 then error("targets draws one operation; name one with --operation") else . end
    | $choice.operations[0] as $operation
    | [drawn($choice.targets; true)[] | { name } + target_point($operation)]
    | length as $count
    | [to_entries[] | .value + { y: ($count - .key) }]
    | { title: "Targets side by side",
        x: linear_axis(if $operation == null then "operations per second: higher is better"
                       else "p50 of \($operation) (us): lower is better" end; 0; [.[].most] | max),
        y: (axis("") + { from: 0.4, to: ($count + 0.6),
                         tics: [.[] | [.y, "\(.name): \(.x | if $operation == null then short else microseconds end)"]] }),
        mark: null,
        lines: [to_entries[] | .key as $colour | .value
                | { text: null, style: "bar", $colour, dash: 0, parts: [[[.x, .y, .least, .most]]] }] };

# One second after the other, through all rounds; a line is broken between rounds, and where nothing ended.
def seconds($figure):
    [rounds(["series", 0, "second"]; ": only runs without --floor have a series")[].series]
    | reduce .[] as $series ({ before: 0, parts: [] };
        .before as $before
        | .parts += (reduce $series[] as $second ([[]];
              if $second.operations > 0 then
                  .[-1] += [[$before + $second.second - $series[0].second + 1, $second[$figure]]]
              else . + [[]] end) | map(select(. != [])))
        | .before += ($series | last.second - .[0].second + 1))
    | .parts;

def over_time($choice):
    if $choice.operations != [] then error("time draws all operations together; leave --operation out") else . end
    | [drawn($choice.targets; true)[] | { name, p99: seconds("p99_us"), p50: seconds("p50_us") }]
    | [.[] | .p99[][], .p50[][]] as $points
    | if $points == [] then error("nothing ended in any second") else . end
    | { title: "Latency second by second",
        x: linear_axis("seconds measured, rounds one after the other"; 0; [$points[][0]] | max),
        y: log_axis("latency of all operations (us)"; [$points[][1]] | min; [$points[][1]] | max; microseconds),
        mark: null,
        lines: [to_entries[] | .key as $colour | .value | (
            { text: "\(.name) p50", style: "beads", $colour, dash: 0, parts: .p50 },
            { text: "\(.name) p99", style: "beads", $colour, dash: 1, parts: .p99 })] };

def picture($kind; $choice):
    . as $files
    | if $kind == "cdf" then cdf($choice)
      elif $kind == "load" then load($choice)
      elif $kind == "floor" then floors($choice)
      elif $kind == "clients" then throughput($choice)
      elif $kind == "targets" then beside($choice)
      else over_time($choice) end
    | .caption = ($files | caption)
    | .tag = (if any($files[].run.environment; .emulated == true) then "emulated processors" else null end)
    | ([$files[].run.targets[].name | select($choice.targets == [] or ([.] | inside($choice.targets)))] | once) as $names
    | if ($names | length) == 1 then .title += ": \($names[0])" else . end
    | if $choice.title != "" then .title = $choice.title else . end;
