#!/usr/bin/env python3
"""Lists the constants marked *guess* that move a headline figure by more than 1 % when halved or doubled.

    scripts/guesses.py [--list] [--scale N] [--seed N] [--level LEVEL] [--target DIR] [PATTERN…]

A constant is a line of crates/*/src/**/*.rs or crates/mechanics/profiles/*.toml with a number after `=` or `:`, if the
line or the comment above it says "guess". PATTERN (a regular expression) selects lines by "FILE:LINE TEXT"; without one
all are tried. --list prints them and stops.

The headline figures are the rows of `headtime papers a.noise` at one level [default: typical]: characterization,
throughput, gaps, deadlines and shares. Constants are changed in a copy of the committed tree, the experiment is built
and run, and the rows are compared with those of the unchanged tree. A build takes minutes, so constants are changed in
groups: all of a group at once, and halves of it only if a figure moves or the group does not build or run. Two
constants of one group whose effects cancel are not found. --target keeps the build's directory for the next call.

Rows differ by chance, too: the changes of the figures by four other seeds are measured first, and only larger ones
count.
"""
import argparse, json, os, pathlib, re, subprocess, sys, tempfile

NUMBER = re.compile(r"(?<![\w.])\d[\d_]*(?:\.\d+)?(?:e-?\d+)?(?![\w.]*\w)")
CONSTANT = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?(?:const \w+: [^=]+ = |\w+(?: = |: ))(?P<value>[^#/]*\d[^#]*)")
# Without the rest of the program it builds in half the time.
EXAMPLE = """
use headtime_lab::papers::{Context, Silent, output, select};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (seed, scale) = (arguments[0].parse().unwrap(), arguments[1].parse().unwrap());
    let report = select(&["a.noise"]).unwrap()[0].run(&Context::new(seed, scale, 2, &Silent)).unwrap();
    println!("{}", output::json(&report).unwrap());
}
"""


def constants(root):
    files = [*root.glob("crates/*/src/**/*.rs"), *root.glob("crates/mechanics/profiles/*.toml")]
    for file in sorted(files):
        comment = ""
        for number, line in enumerate(file.read_text().splitlines(), 1):
            stripped = line.strip()
            if stripped.startswith(("//", "#")) and not stripped.startswith("#["):
                comment += " " + stripped
                continue
            own = line.split("#", 1)[1] if file.suffix == ".toml" and "#" in line else ""
            found = CONSTANT.match(line)
            if found and NUMBER.search(found["value"]) and re.search(r"\bguess", own or comment, re.I):
                yield file.relative_to(root), number, line
            comment = ""


def changed(line, factor):
    start = CONSTANT.match(line).start("value")

    def scaled(found):
        text = found[0].replace("_", "")
        if re.fullmatch(r"\d+", text):
            return str(max(1, round(int(text) * factor)))
        return repr(float(text) * factor)

    return line[:start] + NUMBER.sub(scaled, line[start:], count=1)


def figures(tree, seed):
    build = ["cargo", "build", "--quiet", "-p", "headtime-lab", "--example", "headline"]
    subprocess.run(build, cwd=tree, env=environment, check=True, stderr=subprocess.DEVNULL)
    program = pathlib.Path(environment["CARGO_TARGET_DIR"]) / "debug/examples/headline"
    run = subprocess.run([program, str(seed), options.scale], check=True, capture_output=True, text=True, timeout=1800)
    ending = f", with noise {options.level}"
    rows = [row for row in json.loads(run.stdout)["rows"] if row["what"].endswith(ending)]
    return {row["what"].removesuffix(ending): row["measured"] for row in rows}


def differences(before, after):
    return {what: after[what] / value - 1 for what, value in before.items() if value}


def moved(tree, group, factor):
    """The figures that the constants of `group` move together, in words; empty if none."""
    whole = {file: (tree / file).read_text() for file, _, _ in group}
    try:
        for file, number, line in group:
            lines = (tree / file).read_text().splitlines(keepends=True)
            lines[number - 1] = changed(line, factor) + "\n"
            (tree / file).write_text("".join(lines))
        by = differences(before, figures(tree, options.seed)).items()
        return "; ".join(f"{what} {by:+.1%}" for what, by in by if abs(by) > max(0.01, chance[what]))
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return f"not measured: {pathlib.Path(error.cmd[0]).name} failed"
    finally:
        for file, text in whole.items():
            (tree / file).write_text(text)


def search(tree, group, name, factor):
    words = moved(tree, group, factor)
    if len(group) == 1 and words:
        file, number, line = group[0]
        print(f"{file}:{number}: {line.strip()} {name}: {words}", flush=True)
    elif words:
        print(f"  ({len(group)} from {group[0][0]}:{group[0][1]} on, {name}: {words})", file=sys.stderr, flush=True)
        middle = len(group) // 2
        search(tree, group[:middle], name, factor)
        search(tree, group[middle:], name, factor)
    else:
        print(f"  ({len(group)} from {group[0][0]}:{group[0][1]} on, {name}: none)", file=sys.stderr, flush=True)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--list", action="store_true")
parser.add_argument("--scale", default="0.2")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--level", default="typical")
parser.add_argument("--target")
parser.add_argument("patterns", nargs="*")
options = parser.parse_args()
top = subprocess.run(["git", "rev-parse", "--show-toplevel"], capture_output=True, text=True, check=True).stdout.strip()
root = pathlib.Path(top)
chosen = [
    (file, number, line)
    for file, number, line in constants(root)
    if not options.patterns or any(re.search(pattern, f"{file}:{number} {line}") for pattern in options.patterns)
]
if options.list or not chosen:
    for file, number, line in chosen:
        print(f"{file}:{number}: {line.strip()}")
    sys.exit()
with tempfile.TemporaryDirectory() as copy:
    tree = pathlib.Path(copy) / "tree"
    environment = dict(os.environ, CARGO_TARGET_DIR=options.target or str(tree / "target"), CARGO_INCREMENTAL="1")
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree], cwd=root, check=True)
    try:
        (tree / "crates/lab/examples").mkdir(exist_ok=True)
        (tree / "crates/lab/examples/headline.rs").write_text(EXAMPLE)
        before = figures(tree, options.seed)
        others = [differences(before, figures(tree, options.seed + more)) for more in range(1, 5)]
        chance = {what: max(abs(by[what]) for by in others) for what in others[0]}
        print(f"  by chance: {'; '.join(f'{what} {by:.1%}' for what, by in chance.items())}", file=sys.stderr, flush=True)
        for name, factor in (("halved", 0.5), ("doubled", 2.0)):
            search(tree, chosen, name, factor)
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=root, check=True)
