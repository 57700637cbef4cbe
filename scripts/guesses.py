#!/usr/bin/env python3
"""Lists the constants marked *guess* that move a headline figure by more than 1 % when halved or doubled.

    scripts/guesses.py [--list] [--scale N] [--seed N] [--level LEVEL] [PATTERN…]

A constant is a line of crates/*/src/**/*.rs or crates/mechanics/profiles/*.toml with a number after `=` or `:`, if the
line or the comment above it says "guess". PATTERN (a regular expression) selects lines by "FILE:LINE TEXT"; without one
all are tried. --list prints them and stops.

The headline figures are the rows of `headtime papers a.noise` at one level [default: typical]: characterization,
throughput, gaps, deadlines and shares. Each constant is halved and doubled in a copy of the committed tree, the program
is built, and the rows are compared with those of the unchanged tree. A build and a run for each take minutes: choose by
PATTERN, or leave it overnight. What does not build or run (an array length, a limit that is checked) is named.

Rows differ by chance, too: the change of a figure by another seed is measured first, and only changes above it count.
"""
import argparse, json, os, pathlib, re, subprocess, sys, tempfile

NUMBER = re.compile(r"(?<![\w.])\d[\d_]*(?:\.\d+)?(?:e-?\d+)?(?![\w.]*\w)")
CONSTANT = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?(?:const \w+: [^=]+ = |\w+(?: = |: ))(?P<value>[^#/]*\d[^#]*)")


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
    environment = dict(os.environ, CARGO_TARGET_DIR=str(tree / "target"))
    build = ["cargo", "build", "--quiet", "-p", "headtime"]
    subprocess.run(build, cwd=tree, env=environment, check=True, stderr=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as out:
        command = [tree / "target/debug/headtime", "papers", "a.noise", "--json", "--out", out]
        command += ["--scale", options.scale, "--seed", str(seed)]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
    report = json.loads(run.stdout)
    ending = f", with noise {options.level}"
    rows = [row for row in report["rows"] if row["what"].endswith(ending)]
    return {row["what"].removesuffix(ending): row["measured"] for row in rows}


def differences(before, after):
    return {what: after[what] / value - 1 for what, value in before.items() if value}


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--list", action="store_true")
parser.add_argument("--scale", default="0.2")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--level", default="typical")
parser.add_argument("patterns", nargs="*")
options = parser.parse_args()
top = subprocess.run(["git", "rev-parse", "--show-toplevel"], capture_output=True, text=True, check=True).stdout.strip()
root = pathlib.Path(top)
chosen = [
    (file, number, line)
    for file, number, line in constants(root)
    if not options.patterns or any(re.search(pattern, f"{file}:{number} {line}") for pattern in options.patterns)
]
if options.list:
    for file, number, line in chosen:
        print(f"{file}:{number}: {line.strip()}")
    sys.exit()
with tempfile.TemporaryDirectory() as copy:
    tree = pathlib.Path(copy) / "tree"
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree], cwd=root, check=True)
    try:
        before = figures(tree, options.seed)
        chance = {what: abs(by) for what, by in differences(before, figures(tree, options.seed + 1)).items()}
        for file, number, line in chosen:
            whole = (tree / file).read_text().splitlines(keepends=True)
            for name, factor in (("halved", 0.5), ("doubled", 2.0)):
                other = whole.copy()
                other[number - 1] = changed(line, factor) + "\n"
                (tree / file).write_text("".join(other))
                try:
                    moved = differences(before, figures(tree, options.seed))
                    moved = {what: by for what, by in moved.items() if abs(by) > max(0.01, chance[what])}
                    verdict = "; ".join(f"{what} {by:+.1%}" for what, by in moved.items()) or "nothing above 1 %"
                except subprocess.CalledProcessError as error:
                    verdict = f"not measured: {error.cmd[1]} failed"
                print(f"{file}:{number}: {line.strip()} {name}: {verdict}", flush=True)
            (tree / file).write_text("".join(whole))
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=root, check=True)
