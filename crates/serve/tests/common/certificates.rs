//! Certificates made for one test, and a server that presents them.

use std::path::PathBuf;

use headtime_serve::Server;
use headtime_serve::config::{Config, Listen};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SerialNumber, date_time_ymd,
};

use super::Sandbox;

/// A certificate authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub certificate: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("the machine has randomness");
        let mut parameters = CertificateParams::new(Vec::new()).expect("no names");
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::CrlSign,
        ];
        let certificate = parameters.self_signed(&key).expect("good parameters").pem();
        Self { issuer: Issuer::new(parameters, key), certificate }
    }

    /// The certificate and key of a server or client, as PEM.
    pub(crate) fn sign(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> (String, String) {
        self.sign_as(name, usage, None)
    }

    /// The same with a serial number, by which it can be revoked.
    pub(crate) fn sign_as(
        &self,
        name: &str,
        usage: ExtendedKeyUsagePurpose,
        serial: Option<u64>,
    ) -> (String, String) {
        let key = KeyPair::generate().expect("the machine has randomness");
        let mut parameters = CertificateParams::new(vec![name.to_owned()]).expect("a good name");
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![usage];
        parameters.serial_number = serial.map(SerialNumber::from);
        (
            parameters.signed_by(&key, &self.issuer).expect("good parameters").pem(),
            key.serialize_pem(),
        )
    }

    /// The revocation list, valid until the beginning of a year, as PEM.
    pub(crate) fn revocation_list(&self, revoked: &[u64], until: i32) -> String {
        let entry = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let parameters = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        parameters
            .signed_by(&self.issuer)
            .expect("it may sign lists")
            .pem()
            .expect("a list can be written")
    }
}

/// A sandbox with the certificate of the server `localhost`, and a directory for each client in the
/// layout of libnbd and qemu.
pub(crate) struct Bench {
    pub sandbox: Sandbox,
    pub authority: Authority,
}

pub(crate) const VOLUMES: &str = "[[volume]]\nname = \"rec\"\nsize = \"16MiB\"\nclasses = \
    \"bulk\"\n[[volume]]\nname = \"db\"\nsize = \"16MiB\"\n";

impl Bench {
    pub(crate) fn new() -> Self {
        let bench = Self {
            sandbox: Sandbox::with_file_drive(64),
            authority: Authority::new("the authority of this test"),
        };
        bench.write("ca.pem", &bench.authority.certificate);
        bench.write_server_certificate();
        bench
    }

    /// Gives the server a new certificate.
    pub(crate) fn write_server_certificate(&self) {
        let (certificate, key) =
            self.authority.sign("localhost", ExtendedKeyUsagePurpose::ServerAuth);
        self.write("cert.pem", &certificate);
        self.write("key.pem", &key);
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.sandbox.path(name), text).expect("the directory is writable");
    }

    /// The directory of a client with a certificate signed by `authority`, or without one.
    pub(crate) fn client(&self, name: &str, signed_by: Option<&Authority>) -> PathBuf {
        let directory = self.sandbox.path(&format!("client-{name}"));
        std::fs::create_dir(&directory).expect("the directory is writable");
        let write = |name: &str, text: &str| {
            std::fs::write(directory.join(name), text).expect("the directory is writable")
        };
        write("ca-cert.pem", &self.authority.certificate);
        if let Some(authority) = signed_by {
            let (certificate, key) = authority.sign(name, ExtendedKeyUsagePurpose::ClientAuth);
            write("client-cert.pem", &certificate);
            write("client-key.pem", &key);
        }
        directory
    }

    pub(crate) fn toml(&self, more: &str, tls: &str) -> String {
        let path = |name: &str| self.sandbox.path(name).display().to_string();
        let (certificate, key) = (path("cert.pem"), path("key.pem"));
        // The sandbox's own unix socket is the first address.
        let head = self
            .sandbox
            .toml("")
            .replace("nbd.sock\"]", &format!("nbd.sock\", \"tcp:localhost:0,tls={tls}\"]"));
        format!("{head}[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n{more}{VOLUMES}")
    }

    pub(crate) fn serve(&self, more: &str, tls: &str) -> (Server, u16) {
        let config =
            Config::from_toml("test.toml", &self.toml(more, tls)).expect("a good configuration");
        let server = Server::start(&config).expect("the server starts");
        let port = server.addresses().iter().find_map(|address| match address {
            Listen::Tcp { port, .. } => Some(*port),
            Listen::Unix { .. } => None,
        });
        (server, port.expect("it listens there"))
    }

    pub(crate) fn client_ca(&self) -> String {
        format!("client_ca = {:?}\n", self.sandbox.path("ca.pem").display().to_string())
    }
}
