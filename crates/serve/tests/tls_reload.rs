//! Certificates and revocation lists that change while a server runs: real handshakes before and
//! after a reload.

#![allow(clippy::unwrap_used)] // Tests may; clippy knows it only of functions marked as such.

mod common;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::certificates::{Authority, Bench};
use headtime_serve::control::{ControlClient, ControlError, ErrorReplyKind};
use headtime_serve::tls::TlsFiles;
use headtime_serve::{Server, StartError};
use rcgen::ExtendedKeyUsagePurpose;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// The client side of TLS, which resumes sessions where possible.
fn tls(authority: &Authority, certificate: Option<&(String, String)>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match certificate {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            builder
                .with_client_auth_cert(
                    chain,
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap()
        }
    })
}

/// An open export inside TLS.
struct Connection(StreamOwned<ClientConnection, TcpStream>);

impl Connection {
    fn open(port: u16, config: &Arc<ClientConfig>) -> io::Result<Self> {
        let mut stream = TcpStream::connect(("localhost", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.read_exact(&mut [0; 18])?;
        // Newstyle, no zeroes; then STARTTLS, and its acknowledgement.
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x05\0\0\0\0")?;
        stream.read_exact(&mut [0; 20])?;
        let session =
            ClientConnection::new(Arc::clone(config), "localhost".try_into().unwrap()).unwrap();
        let mut stream = StreamOwned::new(session, stream);
        // GO for the export, without asking for anything more.
        stream.write_all(b"IHAVEOPT\0\0\0\x07\0\0\0\x09\0\0\0\x03rec\0\0")?;
        loop {
            let mut header = [0; 20];
            stream.read_exact(&mut header)?;
            let word = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
            stream.read_exact(&mut vec![0; word(16) as usize])?;
            match word(12) {
                1 => return Ok(Self(stream)),
                3 => {}
                other => {
                    return Err(io::Error::other(format!("the export was refused: {other:#x}")));
                }
            }
        }
    }

    /// Reads a sector: the connection lives.
    fn read(&mut self) -> io::Result<()> {
        self.0.write_all(
            &[
                &0x2560_9513_u32.to_be_bytes()[..],
                &[0; 4],
                &[7; 8],
                &[0; 8],
                &512_u32.to_be_bytes(),
            ]
            .concat(),
        )?;
        let mut reply = [0; 16 + 512];
        self.0.read_exact(&mut reply)?;
        assert_eq!(reply[..16], [&0x6744_6698_u32.to_be_bytes()[..], &[0; 4], &[7; 8]].concat());
        Ok(())
    }

    /// The certificate that the server presented.
    fn certificate(&self) -> Vec<u8> {
        self.0.conn.peer_certificates().unwrap()[0].to_vec()
    }
}

fn control(server: &Server) -> ControlClient {
    ControlClient::connect(server.control_socket().unwrap()).unwrap()
}

fn reload(control: &mut ControlClient) -> Result<TlsFiles, String> {
    match control.ask("tls.reload", serde_json::json!({})) {
        Ok(answer) => Ok(serde_json::from_value(answer).unwrap()),
        Err(ControlError::ErrorReply(refused)) => {
            assert_eq!(refused.kind, ErrorReplyKind::Failed);
            Err(refused.message)
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_new_certificate_is_shown_to_new_clients_and_open_connections_stay() {
    let bench = Bench::new();
    let (server, port) = bench.serve("", "require");
    let anybody = tls(&bench.authority, None);
    let mut before = Connection::open(port, &anybody).unwrap();
    bench.write_server_certificate();
    assert_eq!(
        Connection::open(port, &anybody).unwrap().certificate(),
        before.certificate(),
        "the server was not signalled yet"
    );
    let files = reload(&mut control(&server)).unwrap();
    assert!(
        files.notes.is_empty()
            && files.revoked_certificates.is_none()
            && files.certificate_until.contains("4096"),
        "{files:?}"
    );
    let after = Connection::open(port, &anybody).unwrap();
    assert_ne!(after.certificate(), before.certificate());
    before.read().unwrap();
    drop(server);
}

#[test]
fn files_that_do_not_go_together_leave_in_force_what_was() {
    let bench = Bench::new();
    let (server, port) = bench.serve("", "require");
    let anybody = tls(&bench.authority, None);
    let before = Connection::open(port, &anybody).unwrap().certificate();
    let (_, other_key) = bench.authority.sign("localhost", ExtendedKeyUsagePurpose::ServerAuth);
    for (name, text, expected) in [
        ("key.pem", "nothing", "key.pem"),
        ("key.pem", &other_key, "does not belong to the certificate"),
        ("cert.pem", "", "no certificate in it"),
    ] {
        bench.write(name, text);
        let said = reload(&mut control(&server)).unwrap_err();
        assert!(said.contains(expected), "{said}");
        assert_eq!(Connection::open(port, &anybody).unwrap().certificate(), before, "{said}");
    }
    bench.write_server_certificate();
    reload(&mut control(&server)).unwrap();
    assert_ne!(Connection::open(port, &anybody).unwrap().certificate(), before);
    drop(server);
}

#[test]
fn a_certificate_that_was_revoked_opens_nothing_more_not_even_with_a_session_of_before() {
    let bench = Bench::new();
    let list = |revoked: &[u64], until: i32| {
        bench.write("crl.pem", &bench.authority.revocation_list(revoked, until))
    };
    list(&[77], 2999);
    let settings = format!(
        "{}client_crl = {:?}\n",
        bench.client_ca(),
        bench.sandbox.path("crl.pem").display().to_string()
    );
    let (server, port) = bench.serve(&settings, "require");
    let client = |name: &str, serial| {
        tls(
            &bench.authority,
            Some(&bench.authority.sign_as(name, ExtendedKeyUsagePurpose::ClientAuth, Some(serial))),
        )
    };
    let (vm1, vm2, gone) = (client("vm1", 1), client("vm2", 2), client("gone", 77));
    let mut open = Connection::open(port, &vm1).unwrap();
    open.read().unwrap();
    Connection::open(port, &vm2).unwrap().read().unwrap();
    assert!(Connection::open(port, &gone).is_err(), "it was revoked from the beginning");

    list(&[77, 1], 2999);
    Connection::open(port, &vm1).expect("the server was not signalled yet").read().unwrap();
    assert_eq!(reload(&mut control(&server)).unwrap().revoked_certificates, Some(2));
    assert!(Connection::open(port, &vm1).is_err(), "it was revoked");
    Connection::open(port, &vm2).unwrap().read().unwrap();
    open.read().expect("who is connected stays connected");

    // An expired list proves nothing, so clients of its authority are rejected.
    list(&[77], 2021);
    let files = reload(&mut control(&server)).unwrap();
    assert!(
        files.notes[0].contains("expired at") && files.notes[0].contains("fetch its next list"),
        "{files:?}"
    );
    assert!(Connection::open(port, &vm2).is_err());
    // So are clients of an authority without a list.
    bench.write("crl.pem", &Authority::new("somebody else").revocation_list(&[], 2999));
    let files = reload(&mut control(&server)).unwrap();
    assert!(
        files.notes[0].contains("there is no list of")
            && files.notes[0].contains("authority of this test"),
        "{files:?}"
    );
    assert!(Connection::open(port, &vm2).is_err());
    bench.write("crl.pem", &bench.authority.certificate);
    let said = reload(&mut control(&server)).unwrap_err();
    assert!(said.contains("crl.pem: no revocation list in it"), "{said}");
    list(&[77], 2999);
    reload(&mut control(&server)).unwrap();
    Connection::open(port, &vm1).expect("it is on the list no more").read().unwrap();
    drop(server);

    bench.write("crl.pem", "nothing");
    let config =
        headtime_serve::config::Config::from_toml("test.toml", &bench.toml(&settings, "require"))
            .unwrap();
    assert!(matches!(Server::start(&config), Err(StartError::Tls(_))));
}

#[test]
fn sighup_has_certificates_read_again_and_ends_nothing() {
    let bench = Bench::new();
    let mut server = bench.sandbox.spawn_toml(&bench.toml("", "require"));
    let port = std::iter::repeat_with(|| server.line())
        .find_map(|uri| uri.strip_prefix("nbds://localhost:")?.split('/').next()?.parse().ok())
        .unwrap();
    let anybody = tls(&bench.authority, None);
    let mut before = Connection::open(port, &anybody).unwrap();
    bench.write("key.pem", "nothing");
    server.hang_up();
    bench.write_server_certificate();
    server.hang_up();
    let enough = Instant::now() + Duration::from_secs(20);
    while Connection::open(port, &anybody).unwrap().certificate() == before.certificate() {
        assert!(Instant::now() < enough, "after twenty seconds the old certificate is shown");
    }
    before.read().unwrap();
    drop(before);
    assert!(server.terminate().success());
}

#[test]
fn without_tls_there_is_nothing_to_read_again() {
    let sandbox = common::Sandbox::with_file_drive(64);
    let server = sandbox.serve("[[volume]]\nname = \"a\"\nsize = \"8MiB\"\n");
    let error = control(&server).ask("tls.reload", serde_json::json!({})).unwrap_err();
    assert!(
        matches!(&error, ControlError::ErrorReply(reply)
            if reply.kind == ErrorReplyKind::BadRequest && reply.message.contains("no [tls]")),
        "{error}"
    );
    drop(server);
}
