//! Exports with TLS, for common NBD programs and for hostile clients. Each test makes its own
//! certificates.

#![allow(clippy::unwrap_used)] // Tests may; clippy knows it only of functions marked as such.

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use common::certificates::{Authority, Bench};
use common::write_noise;
use headtime_serve::{Server, StartError};
use headtime_testkit::programs::{installed, run, try_run};

const CLIENTS: &str = "[[client]]\nname = \"vm1\"\nexports = [\"rec\", \
    \"rec@*\"]\n[[client]]\nname = \"vm2\"\nexports = [\"db\"]\n";

fn uri(port: u16, export: &str, certificates: &std::path::Path) -> String {
    format!("nbds://localhost:{port}/{export}?tls-certificates={}", certificates.display())
}

#[test]
fn libnbd_copies_over_tls_and_back() {
    if !installed(&["nbdcopy", "nbdinfo"]) {
        return;
    }
    let bench = Bench::new();
    let (server, port) = bench.serve("", "require");
    assert!(
        server.uris().iter().any(|found| found.uri == format!("nbds://localhost:{port}/rec")),
        "{:?}",
        server.uris()
    );
    let client = bench.client("anybody", None);
    let info = run("nbdinfo", &[&uri(port, "rec", &client)]);
    assert!(info.contains("with TLS") && info.contains("export-size: 16777216"), "{info}");
    let (original, copy) = (bench.sandbox.path("in"), bench.sandbox.path("out"));
    write_noise(&original, 1, 16 << 20);
    run(
        "nbdcopy",
        &[
            "--connections=2",
            "--requests=16",
            original.to_str().unwrap(),
            &uri(port, "rec", &client),
        ],
    );
    run(
        "nbdcopy",
        &[
            "--connections=2",
            "--request-size=1048576",
            &uri(port, "rec", &client),
            copy.to_str().unwrap(),
        ],
    );
    assert!(
        std::fs::read(original).unwrap() == std::fs::read(copy).unwrap(),
        "the copy differs from the original"
    );
    // Without TLS nothing is disclosed; a unix socket works as before.
    let refused = try_run("nbdinfo", &[&format!("nbd://localhost:{port}/rec")]);
    assert!(!refused.status.success(), "{}", String::from_utf8_lossy(&refused.stdout));
    run("nbdinfo", &[&bench.sandbox.uri("rec")]);
    assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);
}

#[test]
fn a_certificate_decides_which_exports_and_classes_a_client_sees() {
    if !installed(&["nbdinfo"]) {
        return;
    }
    let bench = Bench::new();
    let (server, port) = bench.serve(&format!("{}{CLIENTS}", bench.client_ca()), "require");
    let (vm1, vm3) =
        (bench.client("vm1", Some(&bench.authority)), bench.client("vm3", Some(&bench.authority)));
    let list = run("nbdinfo", &["--list", &uri(port, "", &vm1)]);
    assert!(
        list.contains("export=\"rec\"")
            && list.contains("export=\"rec@bulk\"")
            && !list.contains("\"db\""),
        "{list}"
    );
    run("nbdinfo", &[&uri(port, "rec@bulk", &vm1)]);
    assert!(!try_run("nbdinfo", &[&uri(port, "db", &vm1)]).status.success());
    assert!(!try_run("nbdinfo", &[&uri(port, "rec", &vm3)]).status.success(), "no entry names it");
    let stranger = Authority::new("somebody else");
    for (name, signed_by) in [("nobody", None), ("vm2", Some(&stranger))] {
        let client = bench.client(name, signed_by);
        let refused = try_run("nbdinfo", &[&uri(port, "db", &client)]);
        assert!(!refused.status.success(), "{name}: {}", String::from_utf8_lossy(&refused.stdout));
    }
    assert_eq!(server.stats().snapshot().by_name()["db"].connections, 0);
    drop(server);
}

#[test]
fn where_tls_may_be_plain_clients_see_what_is_for_anybody() {
    if !installed(&["nbdinfo"]) {
        return;
    }
    let bench = Bench::new();
    let clients =
        format!("{}{CLIENTS}[[client]]\nname = \"*\"\nexports = [\"db\"]\n", bench.client_ca());
    let (server, port) = bench.serve(&clients, "allow");
    let plain = |export: &str| {
        try_run("nbdinfo", &[&format!("nbd://localhost:{port}/{export}")]).status.success()
    };
    assert!(plain("db") && !plain("rec"));
    let vm1 = bench.client("vm1", Some(&bench.authority));
    run("nbdinfo", &[&uri(port, "rec", &vm1)]);
    run("nbdinfo", &[&uri(port, "db", &vm1)]);
    drop(server);
}

#[test]
fn qemu_img_compares_over_tls() {
    if !installed(&["qemu-img"]) {
        return;
    }
    let bench = Bench::new();
    let (server, port) = bench.serve(&format!("{}{CLIENTS}", bench.client_ca()), "require");
    let directory = bench.client("vm2", Some(&bench.authority));
    let original = bench.sandbox.path("in");
    write_noise(&original, 2, 16 << 20);
    let object = format!("tls-creds-x509,id=tls0,endpoint=client,dir={}", directory.display());
    let target = format!("driver=nbd,host=localhost,port={port},export=db,tls-creds=tls0");
    let source = format!("driver=raw,file.driver=file,file.filename={}", original.display());
    run(
        "qemu-img",
        &[
            "convert",
            "--object",
            &object,
            "--image-opts",
            "-n",
            "--target-image-opts",
            &source,
            &format!("driver=raw,file.{}", target.replace(',', ",file.")),
        ],
    );
    run(
        "qemu-img",
        &[
            "compare",
            "--object",
            &object,
            "--image-opts",
            &source,
            &format!("driver=raw,file.{}", target.replace(',', ",file.")),
        ],
    );
    drop(server);
}

/// Options in plaintext.
fn option(code: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &code.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

fn greeted(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("localhost", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    stream.write_all(b"\0\0\0\x03").unwrap();
    stream
}

#[test]
fn nothing_said_in_plaintext_counts_inside_tls_and_half_handshakes_end() {
    let bench = Bench::new();
    let (server, port) = bench.serve("[limits]\nhandshake_timeout = \"300ms\"\n", "require");
    // A command injected after STARTTLS: the connection ends before TLS begins.
    let mut injected = greeted(port);
    injected.write_all(&[option(5, &[]), option(1, b"rec")].concat()).unwrap();
    let mut rest = Vec::new();
    let _reset = injected.read_to_end(&mut rest);
    assert!(rest.is_empty(), "{rest:?}");
    // STARTTLS followed by bytes that are not TLS.
    let mut garbage = greeted(port);
    garbage.write_all(&option(5, &[])).unwrap();
    let mut acknowledged = [0; 20];
    garbage.read_exact(&mut acknowledged).unwrap();
    assert_eq!(acknowledged[12..16], [0, 0, 0, 1]);
    garbage.write_all(&option(1, b"rec")).unwrap();
    let _alert = garbage.read_to_end(&mut rest);
    // STARTTLS followed by silence.
    let mut silent = greeted(port);
    silent.write_all(&option(5, &[])).unwrap();
    silent.read_exact(&mut acknowledged).unwrap();
    assert_eq!(
        silent.read(&mut [0; 1]).unwrap_or(0),
        0,
        "a handshake that does not go on ends in time"
    );
    let stats = server.stats().snapshot();
    assert!(stats.volumes.iter().all(|volume| volume.connections == 0));
    assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);
}

#[test]
fn what_does_not_go_together_is_refused_at_the_start() {
    let bench = Bench::new();
    let said = |toml: &str| {
        let config = headtime_serve::config::Config::from_toml("test.toml", toml).unwrap();
        Server::start(&config).map(|_| ()).unwrap_err()
    };
    let toml = bench.toml("", "require");
    let without = toml
        .replace("[tls]", "")
        .lines()
        .filter(|line| !line.starts_with("certificate") && !line.starts_with("key"))
        .collect::<Vec<_>>()
        .join("\n");
    assert!(said(&without).to_string().contains("TLS needs a certificate"), "{}", said(&without));
    assert!(said(&bench.toml(CLIENTS, "require")).to_string().contains("without client_ca"));
    bench.write("cert.pem", include_str!("version1.pem"));
    let error = said(&toml).to_string();
    assert!(error.contains("cert.pem: it is X.509 version 1") && error.contains("openssl"));
    bench.write_server_certificate();
    std::fs::write(bench.sandbox.path("key.pem"), "nothing").unwrap();
    let error = said(&toml);
    assert!(
        matches!(error, StartError::Tls(_)) && error.to_string().contains("key.pem"),
        "{error}"
    );
}
