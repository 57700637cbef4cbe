//! Volumes that are added, changed and removed while clients use them, over the control socket as
//! `headtime volume` does.

#![allow(clippy::unwrap_used)] // Tests may; clippy knows it only of functions marked as such.

mod common;

use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use common::client::Client;
use common::{Sandbox, noise, runtime};
use headtime_nbd::client::{Reply, RequestError};
use headtime_nbd::{Errno, NbdCommand};
use headtime_serve::control::{
    ControlClient, ControlError, ErrorReplyKind, ExtentStatus, ScanArguments, VolumeAnswer,
    VolumeArguments, VolumeStatus,
};
use headtime_serve::scans::{ScanState, ScanStatus};
use headtime_serve::status::ServerStatus;
use headtime_serve::{Server, default_control_socket};

const ONE: &str = "[[volume]]\nname = \"a\"\nsize = \"8MiB\"\n";
const MIB: u64 = 1 << 20;

fn control(server: &Server) -> ControlClient {
    ControlClient::connect(server.control_socket().expect("a drive in a file has a control socket"))
        .unwrap()
}

fn order(name: &str, settings: &[(&str, &str)]) -> VolumeArguments {
    let settings =
        settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    VolumeArguments { name: name.to_owned(), settings, ..VolumeArguments::default() }
}

fn done(control: &mut ControlClient, verb: &str, order: &VolumeArguments) -> VolumeAnswer {
    control.volume(verb, order).unwrap_or_else(|error| panic!("{verb} {order:?}: {error}"))
}

/// The message of a rejected command, which must be a bad request.
fn refused(control: &mut ControlClient, verb: &str, order: &VolumeArguments) -> String {
    match control.volume(verb, order) {
        Err(ControlError::ErrorReply(refused)) => {
            assert_eq!(refused.kind, ErrorReplyKind::BadRequest, "{}", refused.message);
            refused.message
        }
        other => panic!("{verb} {order:?} was not refused: {other:?}"),
    }
}

fn errno<T: std::fmt::Debug>(result: Result<T, RequestError>) -> Errno {
    match result.unwrap_err() {
        RequestError::Server { errno, .. } => errno,
        other => panic!("{other:?}"),
    }
}

/// The volumes after the server has noticed that all clients have left.
fn once_all_have_left(orders: &mut ControlClient) -> Vec<VolumeStatus> {
    let enough = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        let now = volumes(orders);
        if now.iter().flat_map(|volume| &volume.classes).all(|class| class.connections == Some(0)) {
            return now;
        }
        assert!(std::time::Instant::now() < enough, "a minute after the clients left: {now:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn volumes(control: &mut ControlClient) -> Vec<VolumeStatus> {
    done(control, "volume.list", &VolumeArguments::default()).volumes
}

#[test]
fn a_server_starts_without_a_volume_and_after_its_last_one_was_removed() {
    let sandbox = Sandbox::with_file_drive(8);
    for start in ["a new drive", "a drive whose last volume was removed"] {
        let server = sandbox.serve("");
        assert!(server.uris().is_empty(), "{start}");
        let mut orders = control(&server);
        let added = done(&mut orders, "volume.add", &order("a", &[("size", "1MB")]));
        let note = "a has 1000448 bytes: its size was rounded up to sectors of 512 bytes";
        assert_eq!(
            (added.volumes[0].size_bytes, &*added.notes),
            (1_000_448, &[note.to_owned()][..])
        );
        runtime().block_on(async {
            let mut client = Client::open(&sandbox.socket(), "a").await.unwrap();
            assert!(matches!(client.write(0, noise(1, 4096)).await, Ok(Reply::Done)));
            client.leave().await;
        });
        once_all_have_left(&mut orders);
        assert!(done(&mut orders, "volume.remove", &order("a", &[])).volumes.is_empty());
        assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);
    }
}

#[test]
fn a_volume_is_made_changed_and_removed_while_another_is_in_use_and_all_survives_a_restart() {
    let sandbox = Sandbox::with_file_drive(64);
    let runtime = runtime();
    let server = sandbox.serve(ONE);
    let mut orders = control(&server);
    runtime.block_on(async {
        let mut a = Client::open(&sandbox.socket(), "a").await.unwrap();
        a.write(0, noise(1, 4096)).await.unwrap();

        let dry = VolumeArguments {
            dry_run: true,
            ..order("b", &[("size", "16MiB"), ("reserve", "25%")])
        };
        let would = done(&mut orders, "volume.add", &dry);
        assert!(
            would.dry_run
                && would.volumes[0].size_bytes == 16 * MIB
                && would.free_share_percent == 75.0,
            "{would:?}"
        );
        assert_eq!(volumes(&mut orders).len(), 1, "a dry run changes nothing");
        assert!(Client::open(&sandbox.socket(), "b").await.is_err());

        done(
            &mut orders,
            "volume.add",
            &order("b", &[("size", "16MiB"), ("reserve", "25%"), ("deadline", "100ms")]),
        );
        let mut b = Client::open(&sandbox.socket(), "b").await.unwrap();
        b.write(15 * MIB, noise(2, 4096)).await.unwrap();
        let said = refused(
            &mut orders,
            "volume.add",
            &order("c", &[("size", "1MiB"), ("reserve", "80%")]),
        );
        assert_eq!(
            said,
            "c: 80 % of the drive's time cannot be reserved, because 75 % is free; \
            reserve less, or lower another reserve"
        );
        let said = refused(&mut orders, "volume.set", &order("a", &[("reserve", "75.1%")]));
        assert!(said.contains("75 % is free"), "{said}");
        done(&mut orders, "volume.set", &order("a", &[("reserve", "75%")]));
        assert!(
            refused(&mut orders, "volume.add", &order("b", &[("size", "1MiB")]))
                .contains("on the drive already")
        );

        // Neither connection was affected.
        assert_eq!(a.read(0, 4096).await.unwrap(), noise(1, 4096));
        assert_eq!(b.read(15 * MIB, 4096).await.unwrap(), noise(2, 4096));
        a.leave().await;
        b.leave().await;
    });
    let before = once_all_have_left(&mut orders);
    assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);

    // The configuration names `a` only and leaves its reserve open.
    let server = sandbox.serve(ONE);
    let mut orders = control(&server);
    assert_eq!(volumes(&mut orders), before);
    runtime.block_on(async {
        let mut b = Client::open(&sandbox.socket(), "b")
            .await
            .expect("a volume that was added is served again");
        assert_eq!(b.read(15 * MIB, 4096).await.unwrap(), noise(2, 4096));
        b.leave().await;
    });
    drop(server);
}

#[test]
fn a_volume_in_use_is_removed_by_force_only_and_its_client_is_let_go() {
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(&format!("{ONE}[[volume]]\nname = \"b\"\nsize = \"8MiB\"\n"));
    let mut orders = control(&server);
    runtime().block_on(async {
        let mut b = Client::open(&sandbox.socket(), "b").await.unwrap();
        b.write(0, noise(1, 4096)).await.unwrap();
        let said = refused(&mut orders, "volume.remove", &order("b", &[]));
        assert_eq!(
            said,
            "volume b is in use by 1 client; stop them, or add `--force` (`force` at the control \
                socket), which takes the volume from them"
        );
        assert_eq!(b.read(0, 4096).await.unwrap(), noise(1, 4096), "refused, so nothing happened");
        let answer =
            done(&mut orders, "volume.remove", &VolumeArguments { force: true, ..order("b", &[]) });
        assert!(
            answer.notes.iter().any(|note| note.contains("the configuration names b")),
            "{answer:?}"
        );
        assert!(b.read(0, 4096).await.is_err(), "the connection is over");
        assert!(Client::open(&sandbox.socket(), "b").await.is_err());
        let said = refused(&mut orders, "volume.remove", &order("b", &[]));
        assert!(said.contains("no volume b") && said.contains("the volumes a"), "{said}");
        // Its sectors belong to another volume now, and none of its requests reach them.
        done(&mut orders, "volume.add", &order("c", &[("size", "8MiB")]));
        let mut c = Client::open(&sandbox.socket(), "c").await.unwrap();
        c.write(0, vec![7; 4096]).await.unwrap();
        assert_eq!(c.read(0, 4096).await.unwrap(), vec![7; 4096]);
        c.leave().await;
    });
    let listed = volumes(&mut orders);
    assert_eq!(
        listed.iter().map(|volume| (volume.name.as_str(), volume.number)).collect::<Vec<_>>(),
        [("a", 1), ("c", 3)]
    );
    drop(server);
}

#[test]
fn a_volume_grows_and_shrinks_under_its_client() {
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(ONE);
    let mut orders = control(&server);
    runtime().block_on(async {
        let mut a = Client::open(&sandbox.socket(), "a").await.unwrap();
        a.write(7 * MIB, noise(1, 4096)).await.unwrap();
        let answer = done(&mut orders, "volume.set", &order("a", &[("size", "12MiB")]));
        assert!(answer.notes[0].contains("open it again"), "{answer:?}");
        let mut wide = Client::open(&sandbox.socket(), "a").await.unwrap();
        wide.write(11 * MIB, noise(2, 4096)).await.unwrap();
        assert_eq!(
            wide.read(7 * MIB, 4096).await.unwrap(),
            noise(1, 4096),
            "what it held it holds"
        );

        let said = refused(&mut orders, "volume.set", &order("a", &[("size", "4MiB")]));
        assert!(said.contains("would be lost") && said.contains("cut_data"), "{said}");
        let dry =
            VolumeArguments { cut_data: true, dry_run: true, ..order("a", &[("size", "4MiB")]) };
        assert_eq!(done(&mut orders, "volume.set", &dry).volumes[0].size_bytes, 4 * MIB);
        wide.write(11 * MIB, noise(3, 4096)).await.unwrap();
        done(
            &mut orders,
            "volume.set",
            &VolumeArguments { cut_data: true, ..order("a", &[("size", "4MiB")]) },
        );
        // The sectors after it may belong to another volume by now: no request of this client
        // reaches them, whatever size it saw.
        assert_eq!(errno(wide.read(11 * MIB, 4096).await), Errno::Invalid);
        assert_eq!(errno(wide.write(4 * MIB, noise(3, 4096)).await), Errno::NoSpace);
        assert_eq!(
            errno(
                wide.request(NbdCommand::Trim { offset: 4 * MIB, length: 4096, fua: false }).await
            ),
            Errno::Invalid
        );
        wide.write(4 * MIB - 4096, noise(4, 4096)).await.unwrap();
        assert_eq!(a.read(4 * MIB - 4096, 4096).await.unwrap(), noise(4, 4096));

        done(&mut orders, "volume.set", &order("a", &[("read_only", "true")]));
        assert_eq!(errno(a.write(0, noise(5, 4096)).await), Errno::Perm);
        assert_eq!(a.request(NbdCommand::Flush).await.unwrap(), Reply::Done);
    });
    drop(server);
}

#[test]
fn classes_are_exports_with_settings_of_their_own() {
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(ONE);
    let mut orders = control(&server);
    let exports = |server: &Server| {
        server
            .stats()
            .snapshot()
            .volumes
            .iter()
            .map(|volume| volume.name.clone())
            .collect::<Vec<_>>()
    };
    done(
        &mut orders,
        "volume.set",
        &order("a", &[("classes", "bulk"), ("deadline", "50ms"), ("reserve", "60%")]),
    );
    done(
        &mut orders,
        "volume.add",
        &order("a@realtime", &[("reserve", "30%"), ("deadline", "20ms")]),
    );
    assert_eq!(exports(&server), ["a", "a@bulk", "a@realtime"]);
    runtime().block_on(async {
        let mut urgent = Client::open(&sandbox.socket(), "a@realtime").await.unwrap();
        urgent.write(0, noise(1, 4096)).await.unwrap();
        let mut bulk = Client::open(&sandbox.socket(), "a@bulk").await.unwrap();
        assert_eq!(bulk.read(0, 4096).await.unwrap(), noise(1, 4096), "the same sectors");
        urgent.leave().await;
        bulk.leave().await;
    });
    let stats = server.stats().snapshot();
    let (by_name, counted) = (stats.by_name(), |name: &str| {
        (stats.by_name()[name].deadline_requests, stats.by_name()[name].volume.clone())
    });
    assert_eq!(
        (counted("a@realtime"), counted("a@bulk")),
        ((1, "a".to_owned()), (0, "a".to_owned()))
    );
    assert_eq!(
        (by_name["a@realtime"].deadline.unwrap().as_ms_f64(), by_name["a@bulk"].deadline),
        (20.0, None)
    );
    let said = refused(&mut orders, "volume.set", &order("a@bulk", &[("reserve", "11%")]));
    assert!(said.starts_with("a@bulk: ") && said.contains("cannot be reserved"), "{said}");
    assert!(
        refused(&mut orders, "volume.set", &order("a@bulk", &[("read_only", "true")]))
            .contains("set it on a")
    );
    assert!(
        refused(&mut orders, "volume.set", &order("a@slow", &[("reserve", "1%")]))
            .contains("a@realtime or a@bulk")
    );
    let dry = done(
        &mut orders,
        "volume.remove",
        &VolumeArguments { dry_run: true, ..order("a@bulk", &[]) },
    );
    assert_eq!(
        dry.volumes,
        done(&mut orders, "volume.remove", &order("a@bulk", &[])).volumes,
        "what is predicted is what happens"
    );
    assert!(refused(&mut orders, "volume.remove", &order("a@bulk", &[])).contains("no class bulk"));
    assert_eq!(exports(&server), ["a", "a@realtime"]);
    drop(server);
    let server = sandbox.serve(ONE);
    let classes = volumes(&mut control(&server)).remove(0).classes;
    assert_eq!(
        classes
            .iter()
            .map(|class| (class.export.as_str(), class.reserve_percent))
            .collect::<Vec<_>>(),
        [("a", 60.0), ("a@realtime", 30.0)]
    );
}

#[test]
fn orders_that_make_no_sense_are_refused_with_the_reason() {
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(ONE);
    let mut orders = control(&server);
    let before = volumes(&mut orders);
    for (verb, order, expected) in [
        ("volume.add", order("", &[]), "a name is missing"),
        ("volume.add", order("c", &[]), "give a size to create it"),
        ("volume.add", order("c d", &[("size", "1MiB")]), "expected 1 to 64"),
        ("volume.add", order("c", &[("size", "1TiB")]), "does not fit"),
        (
            "volume.add",
            order("c", &[("size", "1MiB"), ("reserve", "25"), ("color", "red")]),
            "unknown key `color`",
        ),
        ("volume.set", order("a", &[("name", "b")]), "keeps its name"),
        ("volume.set", order("a", &[("limit", "0%")]), "allows no request"),
        ("volume.set", order("a", &[("reserve", "50%"), ("limit", "40%")]), "raise the limit"),
        ("volume.set", order("b", &[("reserve", "1%")]), "no volume b"),
        ("volume.set", order("a@bulk", &[("size", "1MiB")]), "give a size to a"),
        ("volume.show", order("b", &[]), "no volume b"),
    ] {
        let said = refused(&mut orders, verb, &order);
        assert!(said.contains(expected), "{verb} {order:?}: {said}");
    }
    assert_eq!(volumes(&mut orders), before);
    let locator = headtime_io::Locator::Path(sandbox.path("drive.img"));
    assert_eq!(server.control_socket(), default_control_socket(&locator).as_deref());
}

#[test]
fn a_change_that_the_configuration_reverts_at_the_next_start_says_so() {
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(&format!("{ONE}reserve = \"40%\"\nlimit = \"80%\"\n"));
    let mut orders = control(&server);
    let mut noted = |settings: &[(&str, &str)]| {
        let notes = done(&mut orders, "volume.set", &order("a", settings)).notes;
        notes
            .iter()
            .any(|note| note.contains("other values of reserve for a, which the next start"))
    };
    assert!(noted(&[("reserve", "50%")]) && noted(&[("deadline", "1s")]));
    assert!(!noted(&[("reserve", "40%")]), "as in the configuration");
    drop(server);
}

#[test]
fn weights_are_set_for_volumes_and_classes_and_remain() {
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(&format!("{ONE}classes = \"bulk\"\n"));
    let version = || std::fs::read(sandbox.path("drive.img")).unwrap()[8];
    let weights = |server: &Server| -> Vec<Option<u16>> {
        let volumes = volumes(&mut control(server));
        volumes[0].classes.iter().map(|class| class.weight).collect()
    };
    assert_eq!((weights(&server), version()), (vec![None, None], 2));
    let mut orders = control(&server);
    let answer = done(&mut orders, "volume.set", &order("a@bulk", &[("weight", "7")]));
    assert!(answer.notes[0].contains("earlier versions"), "{answer:?}");
    done(&mut orders, "volume.set", &order("a", &[("weight", "1000")]));
    assert_eq!((weights(&server), version()), (vec![Some(1000), Some(7)], 4));
    for wrong in ["0", "1001", "heavy"] {
        let said = refused(&mut orders, "volume.set", &order("a", &[("weight", wrong)]));
        assert!(said.contains("weight"), "{said}");
    }
    drop((orders, server));
    let server = sandbox.serve(ANY);
    assert_eq!(weights(&server), [Some(1000), Some(7)]);
    let mut orders = control(&server);
    for export in ["a", "a@bulk"] {
        done(&mut orders, "volume.set", &order(export, &[("weight", "none")]));
    }
    assert_eq!((weights(&server), version()), (vec![None, None], 2));
}

/// `a` with what is requested by default, and no size that a later start would compare.
const ANY: &str = "[[volume]]\nname = \"a\"\n";

/// Grows `a` by 8 MiB over `b`, which lies after it, and returns the answer.
fn grow_over_a_neighbor(orders: &mut ControlClient) -> VolumeAnswer {
    done(orders, "volume.add", &order("b", &[("size", "8MiB")]));
    let dry = VolumeArguments { dry_run: true, ..order("a", &[("size", "+8MiB")]) };
    let would = done(orders, "volume.set", &dry);
    let answer = done(orders, "volume.set", &order("a", &[("size", "+8MiB")]));
    assert_eq!(would.volumes, answer.volumes, "what is predicted is what happens");
    let extents = &answer.volumes[0].extents;
    let status: ServerStatus = orders.ask_for("status", &serde_json::json!({})).unwrap();
    assert_eq!(status.volumes[0].extents, *extents);
    let mib = |extent: &ExtentStatus| (extent.first_sector / 2048, extent.sectors / 2048);
    assert_eq!(extents.iter().map(mib).collect::<Vec<_>>(), [(1, 8), (17, 8)]);
    answer
}

#[test]
fn a_volume_grows_over_its_neighbor_under_a_client_and_keeps_its_data_over_restarts() {
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(ONE);
    let mut orders = control(&server);
    let version = || std::fs::read(sandbox.path("drive.img")).unwrap()[8];
    let (around, across) = (noise(2, 64 << 10), 8 * MIB - (32 << 10));
    let read_back = async |client: &mut Client<_>| {
        assert_eq!(client.read(across, 64 << 10).await.unwrap(), around);
        assert_eq!(client.read(8 * MIB - 4096, 8192).await.unwrap(), around[28 << 10..36 << 10]);
        assert_eq!(client.read(16 * MIB - 4096, 4096).await.unwrap(), noise(4, 4096));
    };
    assert_eq!(version(), 2);
    runtime().block_on(async {
        let mut old = Client::open(&sandbox.socket(), "a").await.unwrap();
        old.write(8 * MIB - 4096, noise(1, 4096)).await.unwrap();
        let notes = grow_over_a_neighbor(&mut orders).notes.join("\n");
        for expected in [
            "open it again",
            "a has 2 extents",
            "earlier versions",
            "8388608 bytes; write 16777216",
        ] {
            assert!(notes.contains(expected), "{notes}");
        }
        assert_eq!(version(), 3);
        assert_eq!(old.read(8 * MIB - 4096, 4096).await.unwrap(), noise(1, 4096));

        let mut b = Client::open(&sandbox.socket(), "b").await.unwrap();
        b.write(0, noise(3, 8 << 20)).await.unwrap();
        let mut a = Client::open(&sandbox.socket(), "a").await.unwrap();
        assert_eq!(a.machine.session().unwrap().export.size_bytes, 16 * MIB);
        let (offset, length) = (8 * MIB - 8192, 16384);
        for command in [
            NbdCommand::Write { offset: 4 * MIB, payload: noise(9, 8 << 20).into(), fua: true },
            NbdCommand::Trim { offset, length, fua: true },
            NbdCommand::Cache { offset: 0, length: 16 << 20 },
            NbdCommand::Flush,
            NbdCommand::WriteZeroes { offset, length, fua: true, no_hole: true, fast: false },
        ] {
            assert_eq!(a.request(command).await.unwrap(), Reply::Done);
        }
        let mut expected = noise(9, 8 << 20);
        expected[(4 << 20) - 8192..(4 << 20) + 8192].fill(0);
        assert_eq!(a.read(4 * MIB, 8 << 20).await.unwrap(), expected);
        a.write(across, around.clone()).await.unwrap();
        a.write(16 * MIB - 4096, noise(4, 4096)).await.unwrap();
        assert_eq!(a.request(NbdCommand::Flush).await.unwrap(), Reply::Done);
        read_back(&mut a).await;
        assert_eq!(b.read(0, 8 << 20).await.unwrap(), noise(3, 8 << 20), "b is as it was");
    });
    assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);

    // On the drive: b lies between the extents of a.
    let mut image = std::fs::read(sandbox.path("drive.img")).unwrap();
    let at = |mebibytes: usize| mebibytes << 20;
    assert_eq!(image[at(9) - (32 << 10)..at(9)], around[..32 << 10]);
    assert_eq!(image[at(9)..at(17)], noise(3, 8 << 20));
    assert_eq!(image[at(17)..at(17) + (32 << 10)], around[32 << 10..]);
    // The size in the configuration is of a new volume.
    let again = sandbox.serve(ONE);
    assert_eq!(volumes(&mut control(&again))[0].size_bytes, 16 * MIB);
    assert_eq!(again.drain(Duration::from_secs(10)).exit_code(), 0);

    // The first mebibyte is lost, and the table comes back from its copy at the end.
    image[..at(1)].fill(0);
    std::fs::write(sandbox.path("drive.img"), &image).unwrap();
    let server = sandbox.serve(ANY);
    let mut orders = control(&server);
    assert_eq!(version(), 3);
    runtime().block_on(async {
        let mut a = Client::open(&sandbox.socket(), "a").await.unwrap();
        read_back(&mut a).await;
        // Into the sectors after the last extent, without another.
        let answer = done(&mut orders, "volume.set", &order("a", &[("size", "17MiB")]));
        assert_eq!(answer.volumes[0].extents.len(), 2);
        let mut a = Client::open(&sandbox.socket(), "a").await.unwrap();
        a.write(17 * MIB - 4096, noise(5, 4096)).await.unwrap();
        read_back(&mut a).await;
    });
    // An earlier program can read the table again as soon as no volume has several extents.
    let gone = VolumeArguments { force: true, ..order("a", &[]) };
    let answer = done(&mut orders, "volume.remove", &gone);
    assert_eq!((answer.free_bytes, version()), ((62 - 8) * MIB, 2), "both extents are free");
    drop(server);
}

#[test]
fn a_volume_of_several_extents_is_scanned_in_its_own_order() {
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(ONE);
    let mut orders = control(&server);
    grow_over_a_neighbor(&mut orders);
    let content = noise(6, 16 << 20);
    runtime().block_on(async {
        let mut a = Client::open(&sandbox.socket(), "a").await.unwrap();
        a.write(0, content.clone()).await.unwrap();
        let mut b = Client::open(&sandbox.socket(), "b").await.unwrap();
        b.write(0, noise(7, 8 << 20)).await.unwrap();
    });
    let copy = sandbox.path("copy.img");
    let backup = ScanArguments { to: Some(copy.clone()), ..scan("backup") };
    assert_eq!(scanned(&mut orders, &backup).bytes_done, 16 * MIB);
    assert_eq!(std::fs::read(&copy).unwrap(), content);

    let range = Some("7680KiB..9MiB".to_owned());
    let (part, to) = (sandbox.path("part.img"), Some(sandbox.path("part.img")));
    scanned(&mut orders, &ScanArguments { to, range: range.clone(), ..scan("backup") });
    assert_eq!(std::fs::read(&part).unwrap(), content[7680 << 10..9 << 20]);
    // Its first mebibyte lies in both extents.
    let digests = ScanArguments { digests: true, range, ..scan("scrub") };
    scanned(&mut orders, &digests);
    runtime().block_on(async {
        let mut a = Client::open(&sandbox.socket(), "a").await.unwrap();
        a.write(8 * MIB, content[8 << 20..][..4096].to_vec()).await.unwrap();
    });
    let found = scanned(&mut orders, &digests).digests.unwrap();
    assert_eq!((found.compared, found.not_compared, found.changed.sectors), (1, 1, 0));

    // A change in the second extent, first through the server, then beside it.
    let digests = ScanArguments { digests: true, ..scan("scrub") };
    let again = ScanArguments { again: true, ..digests.clone() };
    let table = scanned(&mut orders, &again).digests.unwrap().table;
    runtime().block_on(async {
        let mut a = Client::open(&sandbox.socket(), "a").await.unwrap();
        a.write(9 * MIB, noise(8, 4096)).await.unwrap();
    });
    let found = scanned(&mut orders, &digests).digests.unwrap();
    assert_eq!((found.compared, found.not_compared, found.changed.sectors), (15, 1, 0));
    assert_ne!(found.table, table);
    let file = std::fs::File::options().write(true).open(sandbox.path("drive.img")).unwrap();
    file.write_all_at(&[1; 512], 18 * MIB + 512).unwrap();
    let found = scanned(&mut orders, &digests).digests.unwrap();
    // By the drive's addresses.
    assert_eq!(found.changed.ranges, [(18 * 2048, 2048)]);
    drop(server);
    let server = sandbox.serve(ANY);
    let mut orders = control(&server);
    assert_eq!(scanned(&mut orders, &digests).digests.unwrap().compared, 16, "over a restart");
    // The answer names the scan whose state is of the volume before it grew.
    let every = ScanArguments { every: Some("4w".to_owned()), ..scan("scrub") };
    orders.scan("scan.set", &every).unwrap();
    let grown = order("a", &[("size", "+1MiB")]);
    let dry_run = VolumeArguments { dry_run: true, ..grown.clone() };
    for grown in [dry_run, grown] {
        let notes = done(&mut orders, "volume.set", &grown).notes.join("\n");
        assert!(
            notes.contains("the scrub of a is of the volume before it is resized")
                && notes.contains("digests included: it starts over"),
            "{notes}"
        );
    }
    let status = ended(&mut orders, scan("scrub"));
    assert_eq!((status.bytes_done, status.every.as_str()), (17 * MIB, "4w"));
    assert_eq!(status.digests.unwrap().compared, 0);
    drop(server);
}

fn scan(task: &str) -> ScanArguments {
    let (target, task) = (Some("a".to_owned()), Some(task.to_owned()));
    ScanArguments { target, task, ..ScanArguments::default() }
}

/// Starts a scan and waits for its end.
fn scanned(control: &mut ControlClient, start: &ScanArguments) -> ScanStatus {
    control.scan("scan.start", start).unwrap();
    ended(
        control,
        ScanArguments { target: start.target.clone(), ..scan(start.task.as_deref().unwrap()) },
    )
}

/// Waits for the end of a scan.
fn ended(control: &mut ControlClient, ask: ScanArguments) -> ScanStatus {
    loop {
        let status = control.scan("scan.status", &ask).unwrap().scans.remove(0);
        match status.state {
            ScanState::Running => std::thread::sleep(Duration::from_millis(20)),
            ScanState::Complete => return status,
            other => panic!("{other:?}: {status:?}"),
        }
    }
}
