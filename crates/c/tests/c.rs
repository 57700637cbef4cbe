//! The C interface from C: the committed header, the library as it is installed, and programs that
//! `cc` compiles with the flags of pkg-config.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: [&str; 4] = ["error", "drive", "io", "queue"];

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_header_is_what_cbindgen_writes() {
    let config = cbindgen::Config::from_file(here().join("cbindgen.toml")).expect("a valid file");
    let builder =
        SOURCES.iter().fold(cbindgen::Builder::new().with_config(config), |all, source| {
            all.with_src(here().join(format!("src/{source}.rs")))
        });
    let mut written = Vec::new();
    builder.generate().expect("the sources are parsed").write(&mut written);
    let written = String::from_utf8(written).expect("a text");
    let path = here().join("include/headtime.h");
    if std::env::var_os("HEADTIME_ACCEPT").is_some() {
        fs::write(&path, &written).expect("the header can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == written,
        "include/headtime.h is not the interface of the sources; to write it again: \
            HEADTIME_ACCEPT=1 cargo test -p headtime-c --test c"
    );
}

#[test]
fn a_program_in_c_uses_every_function_of_the_installed_library() {
    let Some(prefix) = Prefix::installed() else { return };
    let source = here().join("tests/interface.c");
    prefix.compile("shared", &source, &[], &[]).run();
    // Finds leaks, and accesses to freed memory and past the ends of buffers.
    let checks = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    if compiles(&checks) {
        prefix.compile("checked", &source, &[], &checks).run();
    } else {
        println!("skipped: the heap check, cc does not have the address sanitizer");
    }
    if compiles(&["-static"]) {
        prefix.compile("static", &source, &["--static"], &["-static"]).run();
    }
    // Without the shared library, the linker takes the static one.
    for library in ["libheadtime_c.so", "libheadtime_c.so.0"] {
        fs::remove_file(prefix.path("lib").join(library)).expect("it was installed");
    }
    prefix.compile("static", &source, &["--static"], &[]).run();
}

#[test]
fn the_program_of_the_documentation_runs() {
    let Some(prefix) = Prefix::installed() else { return };
    let page = fs::read_to_string(here().join("../../docs/c.md")).expect("the page is there");
    let program = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next());
    let source = prefix.path("example.c");
    fs::write(&source, program.expect("the page has a program")).expect("the folder is ours");
    let printed = prefix.compile("example", &source, &[], &[]).run();
    assert!(printed.contains(" ms"), "{printed}");
}

#[test]
fn the_plotter_reads_its_batches() {
    let Some(prefix) = Prefix::installed() else { return };
    let plotter = prefix.compile("plotter", &here().join("examples/plotter.c"), &[], &["-lm"]);
    let printed = plotter.run_with(&["emulated:atlas10k?backing=plotter.img", "1"]);
    let names = ["reads: ", "writers: ", "bookkeeping: "];
    assert!(printed.lines().map(|line| &line[..line.find(' ').unwrap_or(0) + 1]).eq(names));
    assert!(!printed.contains(": 0 in"), "{printed}");
}

#[test]
fn the_plotter_by_plain_threads_reads_its_batches() {
    if Command::new("cc").arg("--version").output().is_err() {
        println!("skipped: cc is not installed");
        return;
    }
    // On a disk, because not every file system in memory accepts direct I/O.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let [program, disk] = ["plotter_threads", "disk.img"].map(|name| folder.path().join(name));
    let file = fs::File::create(&disk).expect("the folder is ours");
    file.set_len(64 << 20).expect("a sparse file");
    let source = here().join("examples/plotter_threads.c");
    run(Command::new("cc").args(STRICT).arg("-o").arg(&program).arg(source).arg("-lm"));
    let printed = run(Command::new(&program).arg(&disk).arg("1"));
    let names = ["plotter: ", "reads: ", "writers: ", "bookkeeping: "];
    assert!(printed.lines().map(|line| &line[..line.find(' ').unwrap_or(0) + 1]).eq(names));
    assert!(!printed.contains(": 0 in"), "{printed}");
}

/// The options of every program.
const STRICT: [&str; 6] = ["-std=gnu11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"];

/// The library in a folder of its own, as `make install-c` installs it.
struct Prefix(tempfile::TempDir);

/// A compiled program.
struct Program {
    path: PathBuf,
    prefix: PathBuf,
}

impl Prefix {
    /// `None` if the tools are missing.
    fn installed() -> Option<Self> {
        for tool in ["cc", "pkg-config"] {
            if Command::new(tool).arg("--version").output().is_err() {
                println!("skipped: {tool} is not installed");
                return None;
            }
        }
        // The libraries are beside the test program, under names with a hash or without.
        let program = std::env::current_exe().expect("a test knows its program");
        let build = program.parent().expect("a program is in a folder");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let script = here().join("../../scripts/install-c.sh");
        // The pkg-config file names the folder, also if the script is given a relative path.
        run(Command::new("sh").arg(script).arg(build).arg(".").current_dir(folder.path()));
        Some(Self(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Compiles a program with the flags of pkg-config, these options of it, and those of cc.
    fn compile(&self, name: &str, source: &Path, options: &[&str], of_cc: &[&str]) -> Program {
        let mut pkg_config = Command::new("pkg-config");
        pkg_config.env("PKG_CONFIG_PATH", self.path("lib/pkgconfig"));
        let flags = run(pkg_config.args(options).args(["--cflags", "--libs", "headtime"]));
        let path = self.path(name);
        let mut cc = Command::new("cc");
        cc.args(STRICT).arg("-o").arg(&path).arg(source).args(flags.split_whitespace()).args(of_cc);
        run(&mut cc);
        Program { path, prefix: self.0.path().to_owned() }
    }
}

impl Program {
    /// Runs the program in its folder; returns what it prints.
    fn run(&self) -> String {
        self.run_with(&[])
    }

    fn run_with(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.path);
        run(command
            .args(arguments)
            .current_dir(&self.prefix)
            .env("LD_LIBRARY_PATH", self.prefix.join("lib")))
    }
}

/// Returns true if cc makes programs with these options.
fn compiles(options: &[&str]) -> bool {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("empty.c");
    fs::write(&source, "int main(void) { return 0; }\n").expect("the folder is ours");
    let mut cc = Command::new("cc");
    cc.args(options).arg("-o").arg(folder.path().join("empty")).arg(source);
    cc.output().is_ok_and(|output| output.status.success())
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("the program can be started");
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("a text")
}
