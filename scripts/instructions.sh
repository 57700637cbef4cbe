#!/bin/bash
# Counts instructions under valgrind and compares the counts with the committed ones.
#
#   instructions.sh            compares; exit 1 if a count is more than a tenth above the committed one
#   instructions.sh --accept   saves the counts as the committed ones for this compiler and architecture
#
# Counts do not vary between runs or machines, but between compilers: crates/sim/benches/instructions.expected has
# them by compiler version and architecture. If it has none for this one, the counts are printed and nothing fails.
# Without valgrind or the runner, the script prints a message and succeeds.
set -u -o pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
expected="$here/crates/sim/benches/instructions.expected"
tools="${HEADTIME_TOOLS:-${CARGO_TARGET_DIR:-$here/target}/tools/bin}"
max_percent=110   # a count above this percentage of the committed one fails
min_percent=90   # below this percentage, the new counts should be committed
accept=no
case "${1:-}" in
    --accept) accept=yes ;;
    "") ;;
    *) echo "usage: instructions.sh [--accept]"; exit 2 ;;
esac

[ -d "$tools" ] && PATH="$(cd "$tools" && pwd):$PATH"
for tool in valgrind gungraun-runner; do
    command -v $tool >/dev/null || { echo "skipped: instruction counts, since $tool is not installed"; exit 0; }
done

compiler="$(rustc --version | cut -d ' ' -f 2)/$(uname -m)"
# An incremental build generates other code: up to 40 % more instructions.
export CARGO_INCREMENTAL=0
output=$(cd "$here" && cargo bench --locked --quiet -p headtime-sim --bench instructions 2>&1) || { echo "$output"; exit 1; }

# A benchmark's name has its own line, FILE::GROUP::FUNCTION ID:ARGUMENTS; its counts follow, those of this run before the bar.
counts=$(echo "$output" | sed 's/\x1b\[[0-9;]*m//g' | awk '
    /^[a-z_0-9]+::[a-z_0-9]+::[a-z_0-9]+/ { split($1, part, "::"); name = part[3] }
    /^ *Instructions:/ && name != "" { split($2, count, "|"); print name, count[1]; name = "" }')
[ -n "$counts" ] || { echo "the output of the benchmark has no counts:"; echo "$output"; exit 1; }

if [ $accept = yes ]; then
    touch "$expected"
    {
        echo "# Instructions by compiler and benchmark; scripts/instructions.sh --accept writes the lines of the current compiler."
        { grep -v -e '^#' "$expected" | grep -v "^$compiler "; echo "$counts" | sed "s|^|$compiler |"; } | sort
    } > "$expected.new" && mv "$expected.new" "$expected"
    echo "$counts"
    exit 0
fi

committed="$expected"
[ -f "$committed" ] || committed=/dev/null
echo "$counts" | awk -v compiler="$compiler" -v most=$max_percent -v least=$min_percent '
    pass == 1 { if ($1 == compiler) { known[$2] = $3 }; next }
    {
        seen[$1] = 1
        if (!($1 in known)) { printf "%-24s %12d  (none committed for rustc %s)\n", $1, $2, compiler; next }
        percent = 100 * $2 / known[$1]
        verdict = ""
        if (percent > most) { verdict = "  MORE THAN " most " % OF THE COMMITTED COUNT"; failed = 1 }
        if ($2 == 0) { verdict = "  NOTHING COUNTED: is the benchmark stripped of its symbols?"; failed = 1 }
        else if (percent < least) verdict = "  fewer: commit the new count with scripts/instructions.sh --accept"
        printf "%-24s %12d  %5.1f %% of %d%s\n", $1, $2, percent, known[$1], verdict
    }
    END {
        for (name in known) if (!(name in seen)) { printf "%s was committed and is not counted any more\n", name; failed = 1 }
        if (failed) print "if this is meant, say why in the commit and run scripts/instructions.sh --accept"
        exit failed
    }' pass=1 "$committed" pass=2 -
