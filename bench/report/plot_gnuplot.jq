# The gnuplot program for a picture of plot_figures.jq, without its place and size.

# Okabe and Ito's colours, which people who see fewer colours can tell apart.
def colours: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444"];
def dashes: ["1", "(14,6)", "(3,5)", "(14,5,3,5)"];
def filled: [7, 5, 9, 11, 13, 15, 3];
def hollow: [6, 4, 8, 10, 12, 14, 2];

def of($list): $list[. % ($list | length)];

# gnuplot takes what stands between single quotes as it is.
def quoted: "'" + (gsub("[[:cntrl:]]"; " ") | gsub("'"; "''")) + "'";

def axis_program($name):
    "set \($name)label \(.text | quoted)",
    (if .log then "set logscale \($name)" else empty end),
    # A hair more than the outermost marks, or rounding would lose them.
    "set \($name)range [\(.from - (.from | fabs) / 1e4):\(.to + (.to | fabs) / 1e4)]",
    "set \($name)tics (" + (.tics | map("\(.[1] | quoted) \(.[0])") | join(", ")) + ")";

# A box from 0, and the rounds' ends across it.
def bar($number):
    "$line\($number) using 1:2:(0):1:($2-0.35):($2+0.35) with boxxyerror fs solid 0.6 noborder lc rgb \(.colour | of(colours) | quoted) notitle, "
    + "$line\($number) using 1:2:3:4 with xerrorbars lw 2 pt 0 lc rgb '#444444' notitle";

# $aside: a factor for x, so that the bars of several lines do not cover each other.
def clause($number; $aside):
    . as { $colour, $dash }
    | if .style == "bar" then bar($number) else "$line\($number)"
    + { line: " using 1:2 with lines lw 2", joined: " using 1:2 with linespoints lw 2 ps 1.1",
        beads: " using 1:2 with linespoints lw 2 ps 0.3",
        spread: " using ($1 * \($aside)):2:3:4 with yerrorlines lw 2 ps 0.8",
        dots: " using 1:2 with points lw 1 ps 0.4" }[.style]
    + (if .style == "line" then "" elif .style == "beads" then " pt 7" else " pt \($colour | of(if $dash == 0 then filled else hollow end))" end)
    + (if .style == "dots" then "" else " dt \($dash | of(dashes))" end)
    + " lc rgb \($colour | of(colours) | quoted)"
    + if .text == null then " notitle" else " title \(.text | quoted)" end end;

def data($number):
    "$line\($number) << END",
    (.parts | map(map(map(tostring) | join(" "))) | map(join("\n")) | join("\n\n")),
    "END";

def program:
    .caption as $caption
    | (.lines | to_entries[] | .key as $number | .value | data($number)),
    "set encoding utf8",
    "set border 3 lc rgb '#888888'",
    "set tics nomirror out scale 0.6 textcolor rgb '#333333'",
    "set grid lt 1 lw 1 lc rgb '#dcdcdc'",
    "set key outside right top Left reverse samplen 3 spacing 1.25 width 1 noautotitle",
    "set label 1 \(.title | quoted) at screen 0.02,0.95 left font ',17'",
    (if .tag == null then empty
     else "set label 99 \(.tag | quoted) at screen 0.98,0.95 right font ',13' textcolor rgb '#d55e00'" end),
    "set tmargin at screen 0.88",
    "set bmargin at screen \(0.16 + 0.035 * ($caption | length))",
    ($caption | to_entries[]
     | "set label \(.key + 2) \(.value | quoted) at screen 0.02,\(0.03 + 0.035 * (($caption | length) - 1 - .key)) left font ',10' textcolor rgb '#666666'"),
    (.x | axis_program("x")),
    (.y | axis_program("y")),
    (if .mark == null then empty
     else "set arrow 1 from graph 0, first \(.mark) to graph 1, first \(.mark) nohead back lw 1.5 lc rgb '#888888'" end),
    (.lines | length) as $count
    | "plot " + (.lines | to_entries
                 | map(.key as $number | .value | clause($number; pow(1.03; $number - ($count - 1) / 2)))
                 | join(", \\\n     "));
