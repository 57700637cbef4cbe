//! `headtime profile`: what it writes where, what it says of what it leaves out, and what it says
//! to nonsense.

#[path = "common/program.rs"]
mod program;

use std::path::Path;
use std::process::Output;

use headtime_mechanics::DriveProfile;
use program::{headtime, stderr, stdout, words};
use serde_json::Value;

const SYSTEM: &str = "
source parts/small.diskspecs
instantiate [ disk0 ] as SMALL_1
";

const SPECS: &str = "
disksim_disk SMALL_1 {
  Model = source small.model,
  Max queue length = 4,
  Scheduler = disksim_ioqueue { Scheduling policy = 8 },
  Read miss over. after read = 0.1,
  Write miss over. after read = 0.2, Write miss over. after write = 0.2, Read miss over. after \
  write = 0.1,
  Bulk sector transfer time = 0.01,
  Preseeking level = 1
}";

const MODEL: &str = "
dm_disk SMALL_1.model {
  Number of data surfaces = 2, Number of cylinders = 2000,
  Mechanical Model = dm_mech_g1 {
    Access time type = trackSwitchPlusRotation, Seek type = extracted, Full seek curve = small.seek,
    Add. write settling delay = 0.2, Head switch time = 0.5, Rotation speed (in rpms) = 7200, \
    Percent error in rpms = 0.0
  },
  Layout Model = dm_layout_g1 {
    LBN-to-PBN mapping scheme = 1, Sparing scheme used = 9,
    Zones = [ dm_layout_g1_zone {
      First cylinder number = 0, Last cylinder number = 1999, Blocks per track = 200, Skew for \
      track switch = 20, Skew for cylinder switch = 30,
      Number of spares = 10, slips = [ 1000 ], defects = [ ]
    } ]
  }
}";

const CURVE: &str = "Seek distances measured: 3\n1, 0.8\n400, 3.0\n1999, 9.0\n";

/// The files of a small drive in a folder, as (the folder, the system's path).
fn small_drive() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    std::fs::create_dir(folder.path().join("parts")).expect("a folder can be made");
    for (name, text) in [
        ("small.parv", SYSTEM),
        ("parts/small.diskspecs", SPECS),
        ("parts/small.model", MODEL),
        ("parts/small.seek", CURVE),
    ] {
        std::fs::write(folder.path().join(name), text).expect("a file can be written");
    }
    let system = folder.path().join("small.parv").display().to_string();
    (folder, system)
}

fn file(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

#[test]
fn a_description_becomes_a_profile_that_can_be_simulated() {
    let (folder, system) = small_drive();
    let out = file(folder.path(), "mine.toml");
    let imported =
        headtime(&["profile", "import", "--disksim", &system, "--name", "mine", "--out", &out]);
    assert!(imported.status.success() && imported.stdout.is_empty(), "{}", stderr(&imported));
    assert!(
        stderr(&imported).contains("small.diskspecs:9:3: left out of disksim_disk SMALL_1")
            && stderr(&imported).contains("Preseeking level = 1")
    );
    let profile = DriveProfile::from_toml(
        "mine",
        &std::fs::read_to_string(&out).expect("the profile was written"),
    )
    .expect("and is one");
    assert_eq!(
        (profile.name.as_str(), profile.mapped().get(), profile.firmware.queue_depth),
        ("mine", 2_000 * 400 - 10, 4)
    );
    let simulated = headtime(&words(&format!(
        "sim --drive {out} --policy sptf --clients 4 --requests 200 --seed 3 --json"
    )));
    assert!(simulated.status.success(), "{}", stderr(&simulated));
    let answer: Value = serde_json::from_slice(&simulated.stdout).expect("one JSON object");
    assert_eq!(answer["requests"], 200);
    let checked = headtime(&["profile", "check", &out, "--json"]);
    let figures: Value = serde_json::from_slice(&checked.stdout).expect("one JSON object");
    assert_eq!(
        (&figures["ok"], &figures["capacity_sectors"], &figures["heads"]),
        (&Value::from(true), &Value::from(799_990), &Value::from(2))
    );
    let shown = headtime(&["profile", "show", &out]);
    assert_eq!(DriveProfile::from_toml("mine", stdout(&shown)).as_ref(), Ok(&profile));
}

#[test]
fn a_file_that_is_there_is_only_replaced_with_force() {
    let (folder, system) = small_drive();
    let out = file(folder.path(), "mine.toml");
    std::fs::write(&out, "precious").expect("a file can be written");
    let refused = headtime(&["profile", "import", "--disksim", &system, "--out", &out]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        stderr(&refused)
            .contains("mine.toml exists; choose another file, or add --force to replace it"),
        "{}",
        stderr(&refused)
    );
    assert_eq!(std::fs::read_to_string(&out).expect("it is there"), "precious");
    let forced =
        headtime(&["profile", "import", "--disksim", &system, "--out", &out, "--force", "--quiet"]);
    assert!(forced.status.success() && forced.stderr.is_empty(), "{}", stderr(&forced));
    let standard = headtime(&["profile", "import", "--disksim", &system]);
    assert_eq!(std::fs::read_to_string(&out).expect("it was written"), stdout(&standard));
    // No partial file remains: there are only the four files, their directory and the profile.
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder can be listed").count(), 3);
}

#[test]
fn files_may_be_named_in_any_order_or_moved_apart() {
    let (folder, system) = small_drive();
    let whole = headtime(&["profile", "import", "--disksim", &system]);
    let elsewhere = tempfile::tempdir().expect("a folder can be made");
    let mut moved = Vec::new();
    for name in ["small.seek", "small.model", "small.diskspecs"] {
        let to = file(elsewhere.path(), &format!("{}-{name}", moved.len()));
        std::fs::create_dir(&to).expect("a folder can be made");
        let to = file(Path::new(&to), name);
        std::fs::rename(folder.path().join("parts").join(name), &to).expect("a file can be moved");
        moved.push(to);
    }
    let mut arguments = vec!["profile", "import", "--disksim"];
    arguments.extend(moved.iter().map(String::as_str));
    arguments.push(&system);
    let apart = headtime(&arguments);
    assert!(apart.status.success(), "{}", stderr(&apart));
    // Only the order in which files were read, which the description tells, may differ.
    let read = |output: &Output| {
        let profile =
            DriveProfile::from_toml("drive", stdout(output)).expect("a profile was printed");
        DriveProfile { description: String::new(), ..profile }
    };
    assert_eq!(read(&apart), read(&whole));
}

#[test]
fn nonsense_is_refused_with_the_file_and_what_would_do() {
    let (folder, system) = small_drive();
    std::fs::remove_file(folder.path().join("parts/small.seek")).expect("a file can be removed");
    let broken = file(folder.path(), "broken.model");
    std::fs::write(&broken, "dm_disk x {\n Number of data surfaces 2 }")
        .expect("a file can be written");
    let absent = file(folder.path(), "absent.parv");
    let import = ["profile", "import", "--disksim"];
    for (arguments, code, expected) in [
        (vec![system.as_str()], 2, "`small.seek` cannot be read"),
        (vec![&broken], 2, "broken.model:2:28: found `}`, expected `=` after a key"),
        (vec![&absent], 2, "absent.parv cannot be read"),
        (vec![&broken, "--force"], 2, "--out"),
        (vec![], 2, "--disksim"),
    ] {
        let output = headtime(&[&import[..], &arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
    let unknown = headtime(&["profile", "check", "no-such-drive"]);
    assert!(
        unknown.status.code() == Some(2)
            && stderr(&unknown).contains("no profile is called `no-such-drive`"),
        "{}",
        stderr(&unknown)
    );
}
