//! The commands of the documentation pages for administrators, run as they are printed.

use std::path::Path;
use std::process::Command;

/// The pages, in an order in which each finds what the earlier ones set up.
const PAGES: [&str; 5] =
    ["install.md", "existing-data.md", "virtual-machines.md", "monitoring.md", "tls.md"];

#[test]
fn the_commands_of_the_pages_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = Path::new(env!("CARGO_BIN_EXE_headtime"));
    let ran = Command::new(root.join("scripts/run-pages.sh"))
        .arg(program.parent().expect("it is in a folder"))
        .args(PAGES.map(|page| root.join("docs").join(page)))
        .output()
        .expect("bash is installed");
    let (output, messages) =
        (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{output}\n{messages}");
    if output.contains("skipped: ") {
        println!("{}", output.trim_end());
        return;
    }
    assert!(output.ends_with(&format!("run-pages: {} pages ran\n", PAGES.len())), "{output}");
}
