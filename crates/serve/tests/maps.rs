//! The latency map of a server: learned while it serves, saved atomically, restored, loaded, and
//! refused if it belongs to another drive.

mod common;

use std::path::Path;
use std::time::Duration;

use common::Sandbox;
use common::client::Client;
use headtime_belief::maps::{KeptMap, MapKind, MapSettings, mapped_drive};
use headtime_belief::matrix::MatrixBelief;
use headtime_io::files::Existing;
use headtime_io::{read_map, write_map};
use headtime_mechanics::DriveProfile;
use headtime_nbd::NbdCommand;
use headtime_serve::control::{ControlClient, ControlError};
use headtime_serve::maps::{MapFigures, MapFiguresOfKind, MatrixFigures};
use headtime_serve::{Server, StartError};
use headtime_units::{ByteSize, Nanos};
use serde_json::json;

const VOLUME: &str = "[[volume]]\nname = \"rec\"\nsize = \"64MiB\"\n";

fn matrix(file: &Path) -> String {
    format!(
        "policy = \"fcfs\"\noutstanding = 1\nbelief = \"matrix:{}\"\n[map]\ncell = \"64KiB\"\nbits \
            = 16\nmemory = \"8MiB\"\n{VOLUME}",
        file.display()
    )
}

/// Concurrent reads in an order that returns to the same addresses, so that commands follow each
/// other at the drive.
fn read(sandbox: &Sandbox, requests: u64) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut client = Client::open(&sandbox.socket(), "rec").await.expect("it is served");
        for some in (0..requests).collect::<Vec<_>>().chunks(8) {
            for number in some {
                client.submit(NbdCommand::Read {
                    offset: number * 7 % 24 * (2 << 20),
                    length: 4_096,
                    unfragmented: false,
                });
            }
            for _ in some {
                client.completion().await.result.expect("it is read");
            }
        }
        let _ = client.leave().await;
    });
}

fn known(map: &MapFigures) -> u64 {
    figures(map).pairs_known
}

fn figures(map: &MapFigures) -> MatrixFigures {
    match &map.of {
        MapFiguresOfKind::Matrix(of) => of.clone(),
        MapFiguresOfKind::Compact(_) => panic!("it is a matrix"),
    }
}

fn in_file(path: &Path) -> u64 {
    known(&MapFigures::of(&read_map(path, ByteSize::new(1 << 30)).expect("it is whole")))
}

fn refusal(server: &Server, verb: &str, arguments: serde_json::Value) -> String {
    let mut client =
        ControlClient::connect(server.control_socket().expect("it is beside the drive"))
            .expect("the server listens");
    match client.ask(verb, arguments) {
        Err(ControlError::ErrorReply(refused)) => refused.message,
        other => panic!("{verb}: {other:?}"),
    }
}

fn end(server: Server) {
    assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);
}

/// The profile of the sandbox's drive, optionally with another product name.
fn tiny(model: Option<&str>) -> DriveProfile {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tiny.toml"))
        .expect("it is there");
    let text =
        model.map_or(text.clone(), |model| text.replace("\"test drive\"", &format!("\"{model}\"")));
    DriveProfile::from_toml("tiny.toml", &text).expect("it is a profile")
}

/// A map of a drive of this model in cells of this size, with this number of pairs.
fn map(kind: MapKind, model: Option<&str>, cell: u64, pairs: u32) -> KeptMap {
    let profile = tiny(model);
    let mut settings = MapSettings { memory: ByteSize::new(8 << 20), ..MapSettings::default() };
    (settings.matrix.cell, settings.matrix.bits) = (
        ByteSize::new(cell),
        headtime_belief::matrix::EntryBits::from_bits(16).expect("there are such"),
    );
    let belief = settings
        .begin(kind, &mapped_drive(&profile).expect("it has sectors"), Some(&profile))
        .expect("it can be mapped");
    if let Some(matrix) = belief.as_any().downcast_ref::<MatrixBelief>() {
        for number in 0..pairs {
            matrix.map().record(number, number + 1, Nanos::from_us(600));
        }
    }
    KeptMap::of(&*belief).expect("the belief has a map")
}

#[test]
fn what_was_learned_is_there_after_a_restart_and_a_kill_leaves_the_older_map_whole() {
    let sandbox = Sandbox::with_tiny_drive();
    let file = sandbox.path("tiny.map");
    let server = sandbox.serve(&matrix(&file));
    read(&sandbox, 160);
    let learned = known(&server.maps().show().expect("it uses a map"));
    assert!(learned > 10, "{learned} pairs");
    assert!(!file.exists(), "it is saved every ten minutes, at the end, and on request");
    let saved = server.maps().save(None, false).expect("the map has a file");
    assert_eq!((saved.file.as_path(), in_file(&file)), (file.as_path(), learned));
    end(server);
    assert!(in_file(&file) >= learned);

    // It is restored, learns on, and is killed: the saved map stays.
    let before = std::fs::read(&file).expect("it is there");
    let spawned = sandbox.spawn(&matrix(&file));
    read(&sandbox, 64);
    spawned.kill_9();
    assert_eq!(std::fs::read(&file).expect("it is there"), before);
    // A leftover file of a kill during a save.
    std::fs::write(sandbox.path("tiny.map.new"), &before[..before.len() / 3])
        .expect("the folder is ours");
    let server = sandbox.serve(&matrix(&file));
    let kept = server.maps().kept().expect("it uses a map");
    assert!(kept.restored && kept.refused.is_none(), "{kept:?}");
    assert_eq!(known(&server.maps().show().expect("it uses a map")), in_file(&file));
    end(server);
    assert!(!sandbox.path("tiny.map.new").exists());

    // It saves only on command.
    let before = std::fs::read(&file).expect("it is there");
    let server = sandbox.serve(&matrix(&file).replace("[map]\n", "[map]\nsave = \"never\"\n"));
    read(&sandbox, 64);
    end(server);
    assert_eq!(std::fs::read(&file).expect("it is there"), before);
}

#[test]
fn a_hot_region_is_covered_alone_and_a_restored_map_keeps_it() {
    let sandbox = Sandbox::with_tiny_drive();
    let file = sandbox.path("tiny.map");
    let region = matrix(&file).replace("[map]\n", "[map]\nregion = \"0..8MiB\"\n");
    let server = sandbox.serve(&region);
    read(&sandbox, 160);
    let of = figures(&server.maps().show().expect("it uses a map"));
    assert_eq!((of.region_sectors, of.cells_covered), (Some([0, 16_384]), 128));
    assert!(of.uses.not_covered > 20 && of.uses.known_recently.is_some(), "{of:?}");
    assert_eq!(server.maps().kept().expect("it uses a map").ignored, None);
    end(server);

    // Without the region, the map goes on as it was, and the status shows it.
    let server = sandbox.serve(&matrix(&file));
    let ignored = server.maps().kept().expect("it uses a map").ignored.expect("it has a region");
    assert!(ignored.contains("coverage") && ignored.contains("128 cells"), "{ignored}");
    assert_eq!(figures(&server.maps().show().expect("it uses a map")).cells_covered, 128);
    end(server);
}

#[test]
fn a_map_is_loaded_and_merged_while_clients_read_and_a_foreign_one_changes_nothing() {
    let sandbox = Sandbox::with_tiny_drive();
    let file = sandbox.path("tiny.map");
    let server = sandbox.serve(&matrix(&file));
    let on = |name: &str| sandbox.path(name);
    let maps = server.maps();
    write_map(&on("good.map"), &map(MapKind::Matrix, None, 64 << 10, 40), Existing::Keep)
        .expect("the folder is ours");
    write_map(&on("cells.map"), &map(MapKind::Matrix, None, 128 << 10, 9), Existing::Keep)
        .expect("the folder is ours");
    write_map(
        &on("other.map"),
        &map(MapKind::Matrix, Some("another drive"), 64 << 10, 9),
        Existing::Keep,
    )
    .expect("the folder is ours");
    write_map(&on("compact.map"), &map(MapKind::Compact, None, 0x10000, 0), Existing::Keep)
        .expect("the folder is ours");
    let good = std::fs::read(on("good.map")).expect("it was written");
    let write =
        |name: &str, bytes: &[u8]| std::fs::write(on(name), bytes).expect("the folder is ours");
    let mut damaged = good.clone();
    damaged[good.len() / 2] ^= 1;
    write("damaged.map", &damaged);
    write("cut.map", &good[..good.len() - 7]);
    write("text.map", b"dear diary");
    let mut newer = good.clone();
    newer[8] = 200;
    // The checksum of the header precedes its end.
    let header = u32::from_le_bytes([newer[12], newer[13], newer[14], newer[15]]) as usize;
    let checksum = crc32c::crc32c(&newer[..header - 4]);
    newer[header - 4..header].copy_from_slice(&checksum.to_le_bytes());
    write("newer.map", &newer);

    assert_eq!(known(&maps.load(&on("good.map"), false).expect("it is of this drive").map), 40);
    read(&sandbox, 24);
    let before = known(&maps.show().expect("it uses a map"));
    assert!(before >= 40);
    for (name, says) in [
        ("damaged.map", "damaged"),
        ("cut.map", "cut off"),
        ("text.map", "no latency map"),
        ("newer.map", "newer program"),
        ("other.map", "'another drive'"),
        ("compact.map", "modelled by a matrix map"),
        ("nothing.map", "cannot be read"),
    ] {
        for merge in [false, true] {
            let message = refusal(&server, "map.load", json!({"from": on(name), "merge": merge}));
            assert!(
                (message.contains(says) || merge && name == "compact.map")
                    && message.contains(name),
                "{name}: {message}"
            );
        }
    }
    let cells = refusal(&server, "map.load", json!({"from": on("cells.map"), "merge": true}));
    assert!(cells.contains("cells of"), "{cells}");
    assert_eq!(known(&maps.show().expect("it uses a map")), before, "nothing was changed");
    let merged = maps
        .load(&on("good.map"), true)
        .expect("it is of this drive")
        .merged
        .expect("it was merged");
    assert_eq!((merged.new, merged.not_covered), (0, 0), "{merged:?}");
    // Other cells of the same drive are another map, which replaces the first.
    assert_eq!(known(&maps.load(&on("cells.map"), false).expect("it is of this drive").map), 9);
    read(&sandbox, 24);

    // Only a map of the same drive is replaced, and only with `force`.
    let there = refusal(&server, "map.save", json!({"to": on("good.map")}));
    assert!(there.contains("exists") && there.contains("--force"), "{there}");
    let other = refusal(&server, "map.save", json!({"to": on("other.map"), "force": true}));
    assert!(other.contains("another drive") && other.contains("left alone"), "{other}");
    let text = refusal(&server, "map.save", json!({"to": on("text.map"), "force": true}));
    assert!(
        text.contains("no latency map")
            && text.contains("text.map exists")
            && text.contains("move it away"),
        "{text}"
    );
    assert_eq!(std::fs::read(on("text.map")).expect("it is there"), b"dear diary");
    assert!(
        maps.save(Some(&on("good.map")), true).is_ok()
            && maps.save(Some(&on("fresh.map")), false).is_ok()
    );
    end(server);
}

#[test]
fn a_file_that_is_refused_at_the_start_is_left_alone_and_the_server_serves() {
    let sandbox = Sandbox::with_tiny_drive();
    let file = sandbox.path("tiny.map");
    write_map(&file, &map(MapKind::Matrix, Some("another drive"), 64 << 10, 9), Existing::Keep)
        .expect("the folder is ours");
    let foreign = std::fs::read(&file).expect("it was written");
    let server = sandbox.serve(&matrix(&file));
    let kept = server.maps().kept().expect("it uses a map");
    assert!(
        !kept.restored && kept.refused.as_ref().is_some_and(|why| why.contains("'another drive'")),
        "{kept:?}"
    );
    read(&sandbox, 48);
    assert!(known(&server.maps().show().expect("it uses a map")) > 0, "it has begun again");
    let message = refusal(&server, "map.save", json!({}));
    assert!(message.contains("exists"), "{message}");
    assert!(server.maps().save(Some(&sandbox.path("elsewhere.map")), false).is_ok());
    end(server);
    assert_eq!(std::fs::read(&file).expect("it is there"), foreign);
}

#[test]
fn a_file_that_was_refused_and_is_out_of_the_way_is_the_maps_own_again() {
    let sandbox = Sandbox::with_tiny_drive();
    let file = sandbox.path("tiny.map");
    std::fs::write(&file, b"dear diary").expect("the folder is ours");
    let server = sandbox.serve(&matrix(&file));
    read(&sandbox, 24);
    std::fs::remove_file(&file).expect("it is there");
    let first = server.maps().save(None, false).expect("nothing is in the way").bytes;
    let kept = server.maps().kept().expect("it uses a map");
    assert!(kept.refused.is_none() && kept.save_failed.is_none(), "{kept:?}");
    let saved = in_file(&file);
    // A busy machine makes pauses between requests, after which nothing is learned.
    let learned = (0..50)
        .map(|_| {
            read(&sandbox, 160);
            known(&server.maps().show().expect("it uses a map"))
        })
        .find(|learned| *learned > saved)
        .expect("more pairs are known after 8,000 reads");
    assert!(
        server.maps().save(None, false).expect("it is its own").bytes >= first,
        "without being forced"
    );
    read(&sandbox, 8);
    end(server);
    assert!(in_file(&file) >= learned, "and it is saved by itself in the end");
}

#[test]
fn a_map_whose_folder_is_not_there_says_so_from_the_start_and_is_saved_once_it_is() {
    let sandbox = Sandbox::with_tiny_drive();
    let file = sandbox.path("later/tiny.map");
    let server = sandbox.serve(&matrix(&file));
    let failed =
        server.maps().kept().expect("it uses a map").save_failed.expect("it cannot be saved");
    assert!(
        failed.contains("later is not a directory") && failed.contains("create it"),
        "{failed}"
    );
    std::fs::create_dir(sandbox.path("later")).expect("the folder is ours");
    read(&sandbox, 24);
    end(server);
    assert!(in_file(&file) > 0);
}

/// A killed server loses only what it learned since its last save.
#[test]
fn a_map_is_saved_every_so_often() {
    let sandbox = Sandbox::with_tiny_drive();
    let file = sandbox.path("tiny.map");
    let spawned = sandbox.spawn(&matrix(&file).replace("[map]\n", "[map]\nsave = \"1s\"\n"));
    read(&sandbox, 96);
    let saved = (0..1_000).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        file.exists()
    });
    assert!(saved, "it is set to save every second");
    spawned.kill_9();
    let learned = in_file(&file);
    assert!(learned > 0);
    let server = sandbox.serve(&matrix(&file));
    assert_eq!(known(&server.maps().show().expect("it uses a map")), learned);
    end(server);
}

/// Kills during continuous saves: the file has a complete map every time.
#[test]
fn a_kill_in_the_middle_of_a_save_leaves_a_whole_map() {
    let sandbox = Sandbox::with_tiny_drive();
    let file = sandbox.path("tiny.map");
    // As many cells as fit, so that a save takes a while.
    write_map(&file, &map(MapKind::Matrix, None, 64 << 10, 1_900), Existing::Keep)
        .expect("the folder is ours");
    for round in 0..4_u64 {
        let spawned = sandbox.spawn(&matrix(&file));
        let control = sandbox.path("drive.img.control");
        let saving = std::thread::spawn(move || {
            let mut saves = 0;
            let Ok(mut client) = ControlClient::connect(&control) else { return saves };
            while client.ask("map.save", json!({})).is_ok() {
                saves += 1;
            }
            saves
        });
        std::thread::sleep(Duration::from_millis(40 + 17 * round));
        spawned.kill_9();
        let saves: u32 = saving.join().expect("it ends with the server");
        assert!(in_file(&file) >= 1_900, "after {saves} saves in round {round}");
    }
}

#[test]
fn a_compact_map_begins_with_the_profile_or_needs_the_speed() {
    let sandbox = Sandbox::with_tiny_drive();
    let file = sandbox.path("tiny.map");
    let compact =
        format!("policy = \"satf-map\"\nbelief = \"compact:{}\"\n{VOLUME}", file.display());
    let server = sandbox.serve(&compact);
    read(&sandbox, 64);
    let of = |map: MapFigures| match map.of {
        MapFiguresOfKind::Compact(of) => of,
        MapFiguresOfKind::Matrix(_) => panic!("it is a compact map"),
    };
    assert!(of(server.maps().show().expect("it uses a map")).from_profile);
    // The last completion may reach the snapshot after its reply. A hit in the cache, and a read
    // that lost a revolution by noise, is no sample.
    let mut drive = server.stats().snapshot().drive;
    for _ in 0..500 {
        if drive.belief.samples > 32 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
        drive = server.stats().snapshot().drive;
    }
    assert!(drive.drive_model == "compact" && drive.belief.samples > 32, "{drive:?}");
    assert!(
        refusal(&server, "map.load", json!({"from": sandbox.path("x.map"), "merge": true}))
            .contains("cannot be read")
    );
    end(server);
    let server = sandbox.serve(&compact);
    assert!(server.maps().kept().is_some_and(|kept| kept.restored));
    assert!(server.maps().load(&file, false).is_ok());
    read(&sandbox, 16);
    end(server);
    let server =
        sandbox.serve(&format!("belief = \"compact\"\n[map]\nfrom = \"nothing\"\n{VOLUME}"));
    assert!(!of(server.maps().show().expect("it uses a map")).from_profile);
    assert!(refusal(&server, "map.save", json!({})).contains("model = compact:FILE"));
    end(server);

    let plain = Sandbox::with_file_drive(16);
    let volume = "[[volume]]\nname = \"rec\"\nsize = \"4MiB\"\n";
    match Server::start(&plain.config(&format!("belief = \"compact\"\n{volume}"))) {
        Err(StartError::Drive { error, .. }) => {
            assert!(error.to_string().contains("rpm=7200"), "{error}")
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the speed of a file is unknown"),
    }
    end(plain.serve(&format!("belief = \"compact\"\n[map]\nrpm = 7200\n{volume}")));
    let idle = plain
        .config(&format!("{volume}\n[map]\ncell = \"4KiB\"\n"))
        .check()
        .expect_err("there is no map")
        .to_string();
    assert!(idle.contains("model = \"profile\" uses none"), "{idle}");
}

/// As [`matrix`], with a file that it shares with other servers and saves every second.
fn shared_matrix(file: &Path) -> String {
    matrix(file).replace("[map]\n", "[map]\nshared = true\nsave = \"1s\"\n")
}

#[test]
fn two_servers_learn_one_map_and_kills_damage_nothing_and_block_nobody() {
    let (one, other) = (Sandbox::with_tiny_drive(), Sandbox::with_tiny_drive());
    let file = one.path("shared.map");
    let (server, second) = (one.serve(&shared_matrix(&file)), other.serve(&shared_matrix(&file)));
    read(&one, 160);
    let learned = known(&server.maps().show().expect("it uses a map"));
    assert!(learned > 10, "{learned} pairs");
    server.maps().save(None, false).expect("the map is shared");
    second.maps().save(None, false).expect("the map is shared");
    assert!(known(&second.maps().show().expect("it uses a map")) >= learned);
    let kept = second.maps().kept().expect("it uses a map");
    assert!(kept.received_pairs >= Some(learned) && kept.save_failed.is_none(), "{kept:?}");
    end(second);
    end(server);
    let complete = in_file(&file);
    assert!(complete >= learned);

    // One learns, saves every second and is killed at any moment, while another one exchanges.
    let second = other.serve(&shared_matrix(&file));
    for round in 0..4_u64 {
        let spawned = one.spawn(&shared_matrix(&file));
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_millis(900 + 97 * round) {
            read(&one, 24);
        }
        spawned.kill_9();
        assert!(in_file(&file) >= complete, "it is whole and nothing is lost");
        second.maps().save(None, false).expect("the lock of a killed server is free");
    }
    // A damaged file is refused and left as it is, and the server goes on.
    let mut damaged = std::fs::read(&file).expect("it is there");
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&file, &damaged).expect("the folder is ours");
    let refused = second.maps().save(None, false).expect_err("it is damaged").to_string();
    assert!(refused.contains("damaged") && refused.contains("shared.map"), "{refused}");
    let failed = second.maps().kept().expect("it uses a map").save_failed;
    assert!(failed.is_some_and(|failed| failed.contains("damaged")));
    read(&other, 8);
    end(second);
    assert_eq!(std::fs::read(&file).expect("it is there"), damaged);
}

#[test]
fn a_map_is_shared_only_by_a_matrix_with_a_file_that_is_saved() {
    let sandbox = Sandbox::with_tiny_drive();
    let shared = shared_matrix(&sandbox.path("shared.map"));
    for (config, expected) in [
        (
            shared.replace("save = \"1s\"", "save = \"never\""),
            "save = \"never\" cannot be combined",
        ),
        (shared.replace("\"1s\"", "\"1s\"\ncount_samples = true"), "count_samples = true cannot"),
        (
            matrix(Path::new(""))
                .replace("matrix:", "matrix")
                .replace("[map]", "[map]\nshared = true"),
            "needs a matrix with a file, but model is \"matrix\"",
        ),
    ] {
        let error = sandbox.config(&config).check().expect_err("a contradiction").to_string();
        assert!(error.contains(expected), "{error}");
    }
}
