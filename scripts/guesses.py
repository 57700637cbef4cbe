#!/usr/bin/env python3
"""Lists the constants marked *guess* that move a headline figure by more than 1 % when halved or doubled.

    scripts/guesses.py [--list] [--scale N] [--seeds N] [--level LEVEL] [--target DIR] [--jobs N] [PATTERN…]

A constant is a line of crates/*/src/**/*.rs or crates/mechanics/profiles/*.toml with a number after `=` or `:`, if the
line or the comment above it says "guess". PATTERN (a regular expression) selects lines by "FILE:LINE TEXT"; without one
all are tried. --list prints them and stops.

The headline figures are the rows of `headtime papers a.noise` at one level [default: typical]: characterization,
throughput, gaps, deadlines and shares. In a copy of the committed tree each constant becomes a variable that the
program sets as it starts, so that one build serves all. A constant that the compiler needs (the length of an array)
stays one; it is named as not tried. Of several numbers in parentheses or brackets each is tried.

A constant that leaves every figure of the first seed as it was, to the last digit, is not used. The constants of a file
are changed together first, halves of them only if a figure changed. Another change of the figures may be chance: each
run is another draw of the same events. So the figures of each seed are compared with those of the same seed unchanged,
and a constant is listed if the 95 % interval of the mean difference lies beyond 1 %.
"""
import argparse, concurrent.futures, json, math, os, pathlib, re, statistics, subprocess, sys, tempfile

NUMBER = re.compile(r"(?<![\w.])\d[\d_]*(?:\.\d+)?(?:e-?\d+)?(?![\w.]*\w)")
CONSTANT = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?(?:const \w+: [^=]+ = |\w+(?: = |: ))(?P<value>[^#/]*\d[^#]*)")
DECLARED = re.compile(r"^(?P<indent>\s*)(?P<public>pub(?:\([^)]*\))? )?const (?P<name>\w+): (?P<type>.+?) = (?P<value>.+)$", re.S)
FACTORS = {"halved": 0.5, "doubled": 2.0}
T95 = [0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26]
# The program sets variable N to its variant V by an argument N:V; a profile is read from the file that the environment
# names. Without the rest of headtime it builds in half the time.
EXAMPLE = """
use headtime_lab::papers::{{Context, Silent, output, select}};

unsafe extern "C" {{
{declarations}
}}

fn main() {{
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    for change in &arguments[2..] {{
        let (number, variant) = change.split_once(':').unwrap();
        let (number, variant): (usize, usize) = (number.parse().unwrap(), variant.parse().unwrap());
        unsafe {{
            let (size, values, chosen): (usize, *const u8, *mut u8) = match number {{
{table}
                _ => panic!("no variable {{number}}"),
            }};
            std::ptr::copy_nonoverlapping(values.add(variant * size), chosen, size);
        }}
    }}
    let (seed, scale) = (arguments[0].parse().unwrap(), arguments[1].parse().unwrap());
    let report = select(&["a.noise"]).unwrap()[0].run(&Context::new(seed, scale, 1, &Silent)).unwrap();
    println!("{{}}", output::json(&report).unwrap());
}}
"""
PROFILE = """
        extern crate std;
        if let Ok(file) = std::env::var(alloc::format!("PROFILE_{}", self.name)) {
            let text = std::fs::read_to_string(file).expect("the changed profile");
            return DriveProfile::from_toml(self.name, &text);
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
                several = found["value"].lstrip().startswith(("(", "["))
                for which, text in enumerate(NUMBER.findall(line[found.start("value") :])):
                    if float(text.replace("_", "")) and (several or which == 0):
                        yield file.relative_to(root), number, line, which
            comment = ""


def changed(line, which, factor):
    start = CONSTANT.match(line).start("value")

    def scaled(found):
        nonlocal which
        which -= 1
        if which != -1:
            return found[0]
        text = found[0].replace("_", "")
        if re.fullmatch(r"\d+", text):
            return str(max(1, round(int(text) * factor)))
        return repr(float(text) * factor)

    return line[:start] + NUMBER.sub(scaled, line[start:])


class Variable:
    """A declaration that becomes a variable: its first and last line, and for each constant in it the line."""

    def __init__(self, number, file, first, last):
        self.number, self.file, self.first, self.last, self.inside = number, file, first, last, []
        self.name = DECLARED.match("\n".join(texts[file][first - 1 : last]))["name"]
        self.kept = False

    def text(self):
        lines = texts[self.file]
        parts = DECLARED.match("\n".join(lines[self.first - 1 : self.last]))
        variants = [parts["value"].rstrip().removesuffix(";")]
        for number, which in self.inside:
            for factor in FACTORS.values():
                other = [*lines]
                other[number - 1] = changed(lines[number - 1], which, factor)
                text = "\n".join(other[self.first - 1 : self.last])
                variants.append(DECLARED.match(text)["value"].rstrip().removesuffix(";"))
        variants = [re.sub(r"//[^\n]*", "", text).replace("\n", " ") for text in variants]
        kind, public, n = parts["type"], parts["public"] or "", self.number
        return (
            f'unsafe extern "C" {{ #[link_name = "ht_chosen_{n}"] {public}safe static {parts["name"]}: {kind}; }} '
            f'const _: () = {{ #[unsafe(export_name = "ht_size_{n}")] static SIZE: usize = size_of::<{kind}>(); '
            f'#[unsafe(export_name = "ht_values_{n}")] static VALUES: [{kind}; {len(variants)}] = '
            f'[{", ".join(variants)}]; '
            f'#[unsafe(export_name = "ht_chosen_{n}")] static mut CHOSEN: {kind} = {variants[0]}; }};'
            + "\n" * (self.last - self.first)
        )


def declarations(chosen):
    """The variables of the chosen lines, without those that are in no declaration."""
    variables = {}
    for file, number, line, which in chosen:
        lines = texts[file]
        first = last = number
        if not DECLARED.match(line):
            while first and not re.match(r"^\s*(pub(\([^)]*\))? )?(const|fn|impl|struct|let)\b", lines[first - 1]):
                first -= 1
        indent = re.match(r"\s*", lines[first - 1])[0] if first else ""
        while last < len(lines) and not (lines[last - 1].rstrip().endswith(";") and lines[last - 1].startswith(indent)
                                         and not lines[last - 1][len(indent):].startswith(" ")):
            last += 1
        if not first or not DECLARED.match("\n".join(lines[first - 1 : last])):
            continue
        if (file, first) not in variables:
            variables[file, first] = Variable(len(variables), file, first, last)
        variables[file, first].inside.append((number, which))
    return [*variables.values()]


def build(tree, variables):
    """Builds the program; a constant that an error of the compiler names stays one."""
    while True:
        for file in {variable.file for variable in variables}:
            lines = texts[file]
            out, place = [], 1
            for variable in sorted((v for v in variables if v.file == file and not v.kept), key=lambda v: v.first):
                out += lines[place - 1 : variable.first - 1]
                out += variable.text().split("\n")
                place = variable.last + 1
            text = "\n".join(out + lines[place - 1 :]) + "\n"
            if (tree / file).read_text() != text:
                (tree / file).write_text(text)
        used = [variable.number for variable in variables if not variable.kept]
        table = "\n".join(
            f"                {n} => (ht_size_{n}, &raw const ht_values_{n}, &raw mut ht_chosen_{n})," for n in used
        )
        names = "\n".join(f"    static ht_size_{n}: usize; static ht_values_{n}: u8; static mut ht_chosen_{n}: u8;"
                          for n in used)
        example = tree / "crates/lab/examples/headline.rs"
        example.parent.mkdir(exist_ok=True)
        example.write_text("#![allow(warnings)]\n" + EXAMPLE.format(declarations=names, table=table))
        command = ["cargo", "build", "--release", "--message-format=json", "-p", "headtime-lab", "--example", "headline"]
        run = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
        if run.returncode == 0:
            return
        before = len(used)
        errors = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        errors = [e["message"] for e in errors if e["reason"] == "compiler-message" and e["message"]["level"] == "error"]
        for error in errors:
            files = {span["file_name"] for span in error["spans"]}
            crates = {name.split("/")[1] for name in files if name.startswith("crates/")}
            for variable in variables:
                named = rf"\b{variable.name}\b|_{variable.number}\b"
                if variable.file.parts[1] in crates and re.search(named, error["rendered"]):
                    variable.kept = True
        if before == sum(not variable.kept for variable in variables):
            sys.exit("\n".join(error["rendered"] for error in errors) or run.stderr)


def figures(seed, changes=()):
    """The figures of one run with the constants `changes` changed: (file, line, which number, factor's name)."""
    arguments, own, profiles = [], dict(environment), {}
    for file, number, which, name in changes:
        if file.suffix == ".toml":
            lines = profiles.setdefault(file, [*texts[file]])
            lines[number - 1] = changed(lines[number - 1], which, FACTORS[name])
        else:
            variable = place[file, number, which]
            variant = 1 + 2 * variable.inside.index((number, which)) + list(FACTORS).index(name)
            arguments.append(f"{variable.number}:{variant}")
    with tempfile.TemporaryDirectory() as scratch:
        for file, lines in profiles.items():
            copy = pathlib.Path(scratch) / file.name
            copy.write_text("\n".join(lines) + "\n")
            own[f"PROFILE_{file.stem}"] = str(copy)
        try:
            run = subprocess.run([program, str(seed), options.scale, *arguments], env=own, check=True,
                                 capture_output=True, text=True, timeout=900)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return None
    ending = f", with noise {options.level}"
    rows = [row for row in json.loads(run.stdout)["rows"] if row["what"].endswith(ending)]
    return {row["what"].removesuffix(ending): row["measured"] for row in rows}


def search(group, name):
    """Lists the constants of `group` that change a figure."""
    first, *others = before
    after = figures(first, [(file, number, which, name) for file, number, _, which in group])
    if after == before[first]:
        return
    if len(group) > 1:
        middle = len(group) // 2
        search(group[:middle], name)
        search(group[middle:], name)
        return
    file, number, line, which = group[0]
    runs = {first: after}
    for seed in others:
        runs[seed] = figures(seed, [(file, number, which, name)])
    words = []
    if None in runs.values():
        words = ["does not run"]
    for what in before[first] if not words else []:
        by = [runs[seed][what] / before[seed][what] - 1 for seed in runs if before[seed][what]]
        mean, half = statistics.mean(by), T95[len(by) - 1] * statistics.stdev(by) / math.sqrt(len(by))
        if abs(mean) - half > 0.01:
            words.append(f"{what} {mean * 100:+.1f} ± {half * 100:.1f} %")
    text = "; ".join(words) or "within 1 %, or by chance"
    name += f", number {which + 1}" if which else ""
    print(f"{file}:{number}: {line.strip()} {name}: {text}", file=sys.stdout if words else sys.stderr, flush=True)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--list", action="store_true")
parser.add_argument("--scale", default="0.2")
parser.add_argument("--seeds", type=int, default=6)
parser.add_argument("--level", default="typical")
parser.add_argument("--target")
parser.add_argument("--jobs", type=int, default=os.cpu_count())
parser.add_argument("patterns", nargs="*")
options = parser.parse_args()
top = subprocess.run(["git", "rev-parse", "--show-toplevel"], capture_output=True, text=True, check=True).stdout.strip()
root = pathlib.Path(top)
def select(files):
    return [
        one for one in constants(files)
        if not options.patterns or any(re.search(pattern, "{}:{} {}".format(*one)) for pattern in options.patterns)
    ]


if options.list:
    for file, number, line, _ in select(root):
        print(f"{file}:{number}: {line.strip()}")
    sys.exit()
with tempfile.TemporaryDirectory() as copy:
    tree = pathlib.Path(copy) / "tree"
    target = options.target or str(tree / "target")
    # Lints forbid unsafe code; the variables need it.
    environment = dict(os.environ, CARGO_TARGET_DIR=target, RUSTFLAGS="--cap-lints=allow")
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree], cwd=root, check=True)
    try:
        catalog = tree / "crates/mechanics/src/catalog.rs"
        head = "pub fn load(&self) -> Result<DriveProfile, ProfileError> {"
        catalog.write_text(catalog.read_text().replace(head, head + PROFILE, 1))
        chosen = select(tree)
        texts = {one[0]: (tree / one[0]).read_text().splitlines() for one in chosen}
        noise = tree / "crates/lab/src/papers/experiments/a_noise.rs"
        level = f"[NoiseLevel::{options.level.capitalize()}]"
        noise.write_text(noise.read_text().replace("NoiseLevel::ALL", level))
        variables = declarations([line for line in chosen if line[0].suffix == ".rs"])
        build(tree, variables)
        place = {(v.file, *one): v for v in variables if not v.kept for one in v.inside}
        for file, number, line, which in chosen:
            if file.suffix == ".rs" and (file, number, which) not in place:
                print(f"{file}:{number}: {line.strip()}: not tried, the compiler needs it", flush=True)
        program = pathlib.Path(copy) / "headline"
        (pathlib.Path(target) / "release/examples/headline").rename(program)
        groups = {}
        for one in chosen:
            variable = place.get((one[0], one[1], one[3]))
            if one[0].suffix == ".toml" or variable:
                # Variants of one declaration exclude each other.
                alone = variable and len(variable.inside) > 1
                groups.setdefault(one if alone else one[0], []).append(one)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            seeds = range(1, options.seeds + 1)
            before = {seed: found for seed, found in zip(seeds, pool.map(figures, seeds)) if found}
            print(f"  unchanged: {before}", file=sys.stderr, flush=True)
            tried = [(group, name) for group in groups.values() for name in FACTORS]
            for _ in pool.map(lambda one: search(*one), tried):
                pass
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=root, check=True)
