//! The configuration of the server: one [`Config`], from a TOML file, from flags, or from both.
//!
//! ```toml
//! drive = "emulated:nearline-20tb?backing=/var/lib/headtime/drive.img"
//! listen = ["unix:/run/headtime/nbd.sock", "tcp:127.0.0.1:10809"]
//! policy = "headtime"
//!
//! [[volume]]
//! name = "recorder"
//! size = "100GiB"
//! deadline = "100ms"
//!
//! [limits]
//! memory = "512MiB"
//! ```
//!
//! Seven tables list the keys with their meanings and defaults: [`SERVER_KEYS`], [`VOLUME_KEYS`],
//! [`SCAN_KEYS`], [`MAP_KEYS`], [`LIMIT_KEYS`], [`TLS_KEYS`], [`CLIENT_KEYS`]. The TOML reader, the
//! flags, the errors and the documentation use them ([`headtime_config`]). All errors of a file are
//! reported together, each with file, line and column.
//!
//! `conf.d/*.toml` beside the file come before it ([`config_files`]), and flags after it: a value
//! given by flag replaces the file's, a volume given by flag is added or replaces the file's of the
//! same name, and `--listen` replaces all of the file's addresses.

mod files;
mod keys;
mod limits;
mod listen;
mod map_keys;
mod scan_keys;
mod start;
#[cfg(test)]
mod tests;
mod tls_keys;
mod trial;

use std::collections::BTreeSet;
use std::path::PathBuf;

use headtime_belief::maps::{MapKind, MapSettings};
use headtime_config::{TextError, Value, ValueErrors, set, set_pair};
use headtime_io::{
    CommandTimeout, KernelKnobs, Locator, MapStart, ModelSource, PolicyChoice, ProfileSource,
    RawOptions, WriteCache,
};
use headtime_nbd::server::TlsPolicy;
use headtime_sched::{TUNABLES, Tunables};
use headtime_units::{ByteSize, Share};

use crate::http::HttpEndpoint;
use crate::maps::{MapSaving, MapSharing};
use crate::scans::StartScan;
use crate::tls::{ClientConfig, TlsConfig};
use crate::tuner::{Configured, Values};
use crate::volumes::VolumeSpec;

pub use files::config_files;
pub use headtime_config::{Key, TextErrors};
pub use keys::{LIMIT_KEYS, SERVER_KEYS, VOLUME_KEYS};
pub use limits::ServeLimits;
pub use listen::{DEFAULT_PORT, Listen, ListenError};
pub use map_keys::MAP_KEYS;
pub use scan_keys::SCAN_KEYS;
pub use tls_keys::{CLIENT_KEYS, TLS_KEYS};

/// The configuration of `headtime serve`.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The drive; [`Config::check`] requires one.
    pub drive: Option<Locator>,
    /// The size of the file to create when the drive is a path that does not exist.
    pub create: Option<ByteSize>,
    /// The scheduling policy.
    pub policy: PolicyChoice,
    /// The number of commands outstanding at the drive; `None` leaves it to the policy.
    pub outstanding: Option<usize>,
    /// Other settings that may be changed while serving.
    pub tunables: Tunables,
    /// The file of the table of `auto`; empty for the built-in one.
    pub auto_table: String,
    /// The names of such settings that the configuration has, which apply again after a restart.
    pub tuned: BTreeSet<&'static str>,
    /// The drive model of the scheduler.
    pub model: ModelSource,
    /// The settings of a latency map.
    pub map: MapSettings,
    /// The times at which the map is saved to its file.
    pub map_saving: MapSaving,
    /// The other users of that file.
    pub map_sharing: MapSharing,
    /// Any setting of a map is present.
    pub map_named: bool,
    /// Settings of the kernel and the drive, for a block device.
    pub raw: RawOptions,
    /// The time without a completion after which the requests of a command fail.
    pub command_timeout: CommandTimeout,
    /// The control socket.
    pub control: PathChoice,
    /// The directory for the progress of scans.
    pub state: PathChoice,
    /// The maximum increase of the mean response time that scans may cause.
    pub max_impact: MaxImpact,
    /// The profile of the drive.
    pub profile: Option<ProfileSource>,
    /// The address of the metrics, as HOST:PORT.
    pub metrics: Option<String>,
    /// Other machines may reach the metrics.
    pub metrics_public: bool,
    /// The address of the web page, as HOST:PORT.
    pub web: Option<String>,
    /// Other machines may reach the web page.
    pub web_public: bool,
    /// The addresses at which clients connect.
    pub listen: Vec<Listen>,
    /// Certificates for TLS.
    pub tls: TlsConfig,
    /// The exports of clients, by their certificates; all exports when there is no entry.
    pub clients: Vec<ClientConfig>,
    /// A drive with other content, or with a damaged table of volumes, may be overwritten.
    pub initialize: bool,
    /// The drive is served as it is: the whole drive and its partitions are its volumes.
    pub existing: bool,
    /// Nothing is written to the drive, and all volumes are read-only.
    pub read_only: bool,
    /// The share of the drive's time that volumes cannot reserve.
    pub unreserved: Share,
    /// The volumes to serve; when there are none, all volumes on the drive.
    pub volumes: Vec<VolumeSpec>,
    /// The scans that start with the server.
    pub scans: Vec<StartScan>,
    /// The bounds of the server.
    pub limits: ServeLimits,
}

/// The place of a file that belongs to a drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PathChoice {
    /// Next to the drive, where the drive has such a place.
    #[default]
    Default,
    /// No place.
    Off,
    /// This path.
    At(PathBuf),
}

impl PathChoice {
    /// The path; `default` is the one next to the drive.
    #[must_use]
    pub fn path(&self, default: Option<PathBuf>) -> Option<PathBuf> {
        match self {
            Self::Default => default,
            Self::Off => None,
            Self::At(path) => Some(path.clone()),
        }
    }
}

/// The maximum increase of the clients' mean response time that scans may cause. The default of 1 %
/// is a guess at an unnoticeable increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxImpact(pub Share);

impl Default for MaxImpact {
    fn default() -> Self {
        Self(Share::from_billionths(10_000_000).expect("a hundredth is a share"))
    }
}

/// The flags of the command line, as the user wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Keys of [`SERVER_KEYS`] with their values: `--drive LOCATOR`. `listen` may be repeated.
    pub keys: Vec<(&'static str, String)>,
    /// `--set NAME=VALUE`, any number of times.
    pub tunables: Vec<String>,
    /// `--map key=value`, any number of times.
    pub map: Vec<String>,
    /// `--volume NAME[=SIZE][,key=value…]`, any number of times.
    pub volumes: Vec<String>,
    /// `--limit key=value`, any number of times.
    pub limits: Vec<String>,
}

impl Config {
    /// Reads the text of a TOML file; `name` is the name of the file in errors.
    ///
    /// # Errors
    /// All errors of the text, each with line and column. [`Config::check`] finds what is missing.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, TextErrors> {
        Self::from_texts([(name, text)])
    }

    /// A configuration from flags alone.
    ///
    /// # Errors
    /// All errors of the flags. [`Config::check`] finds what is missing.
    pub fn from_flags(flags: &Flags) -> Result<Self, TextErrors> {
        let mut config = Self::default();
        config.apply(flags)?;
        Ok(config)
    }

    /// Applies flags, which take precedence over the file.
    ///
    /// # Errors
    /// All errors of the flags; some flags are applied nevertheless.
    pub fn apply(&mut self, flags: &Flags) -> Result<(), TextErrors> {
        let mut errors: Vec<TextError> = Vec::new();
        let mut report = |flag: &str, text: &str, result: Result<(), ValueErrors>| {
            let flag = format!("--{} {text}", flag.replace('_', "-"));
            errors.extend(result.err().into_iter().flat_map(|error| error.in_flag(&flag)));
        };
        if flags.keys.iter().any(|(key, _)| *key == "listen") {
            self.listen.clear();
        }
        for (key, text) in &flags.keys {
            report(key, text, set(&[SERVER_KEYS], self, key, text));
        }
        let mut flagged: Vec<VolumeSpec> = Vec::new();
        for text in &flags.volumes {
            let read = VolumeSpec::from_flag(text).and_then(|volume| {
                if flagged.iter().any(|other| other.name == volume.name) {
                    return Err(Value::flag("volume", text).error(appears_twice(&volume.name)));
                }
                flagged.push(volume);
                Ok(())
            });
            report("volume", text, read);
        }
        self.volumes.retain(|volume| flagged.iter().all(|other| other.name != volume.name));
        self.volumes.extend(flagged);
        for text in &flags.tunables {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            let result = if TUNABLES.iter().any(|tunable| tunable.name == name) {
                set(&[SERVER_KEYS], self, name, value)
            } else {
                let refused = self.tunables.set(name, value);
                refused.map_err(|error| Value::flag(name, value).error(error))
            };
            report("set", text, result);
        }
        for text in &flags.map {
            self.map_named = true;
            report("map", text, set_pair(MAP_KEYS, "map", self, text));
        }
        for text in &flags.limits {
            report("limit", text, set_pair(LIMIT_KEYS, "limit", &mut self.limits, text));
        }
        TextErrors::check(errors)
    }

    /// Checks that the configuration is complete and consistent.
    ///
    /// # Errors
    /// All missing keys and contradictions.
    pub fn check(&self) -> Result<(), TextErrors> {
        let mut messages = Vec::new();
        if self.drive.is_none() {
            messages.push(
                "no drive is named; add drive = \"emulated:PROFILE?backing=FILE\" or \
                --drive LOCATOR"
                    .to_string(),
            );
        }
        if self.create.is_some() && !matches!(self.drive, Some(Locator::Path(_)) | None) {
            messages.push(
                "create makes a file for a drive that is a path; an emulated drive makes its own \
                    file, so leave create out"
                    .to_string(),
            );
        }
        if self.existing {
            let contradicts = |key: &str, what: &str| {
                format!("existing serves a drive as it is, but {key} {what}; leave one of them out")
            };
            messages
                .extend(self.create.map(|_| contradicts("create", "makes a file for a new drive")));
            let overwrites = || contradicts("initialize", "allows its content to be overwritten");
            messages.extend(self.initialize.then(overwrites));
        }
        if self.read_only {
            let contradicts = |key: &str| {
                format!("read_only forbids writes, but {key} writes to the drive; leave one out")
            };
            let writes = [("create", self.create.is_some()), ("initialize", self.initialize)];
            let writes = writes.iter().filter(|(_, present)| *present);
            messages.extend(writes.map(|(key, _)| contradicts(key)));
        }
        messages.extend(self.raw_contradictions());
        messages.extend(self.map_contradictions());
        if self.listen.is_empty() {
            messages.push(
                "no address to listen at; add listen = [\"unix:PATH\"] or --listen unix:PATH"
                    .to_string(),
            );
        }
        for (index, listen) in self.listen.iter().enumerate() {
            if self.listen[..index].iter().any(|other| other.same_address(listen)) {
                messages.push(format!("the address {listen} appears twice; leave one out"));
            }
        }
        let endpoints: Vec<_> = self.endpoints().map(|(_, address, _)| address).collect();
        if let [metrics, web] = endpoints[..]
            && metrics == web
            && !web.ends_with(":0")
        {
            messages.push(format!(
                "metrics and web have the same address {web}; give each a port of its own"
            ));
        }
        for (index, volume) in self.volumes.iter().enumerate() {
            if self.volumes[..index].iter().any(|other| other.name == volume.name) {
                messages.push(appears_twice(&volume.name));
            }
        }
        messages.extend(self.scan_contradictions());
        messages.extend(self.tls_contradictions());
        messages.extend(self.limits.contradictions());
        let whole = |message| TextError::whole("configuration", message);
        TextErrors::check(messages.into_iter().map(whole).collect())
    }

    /// The contradictions among the settings of TLS.
    fn tls_contradictions(&self) -> Vec<String> {
        let TlsConfig { certificate, key, client_ca, client_crl } = &self.tls;
        let mut messages = Vec::new();
        if certificate.is_some() != key.is_some() {
            messages.push("tls: certificate and key belong together; name both".to_string());
        }
        let has_certificate = certificate.is_some();
        if client_ca.is_some() && !has_certificate {
            messages.push(
                "tls: client_ca needs TLS, which needs certificate and key; add them".to_string(),
            );
        }
        if client_crl.is_some() && client_ca.is_none() {
            messages.push(
                "tls: client_crl needs client_ca, without which clients present no certificates; \
                    add it"
                    .to_string(),
            );
        }
        if self.clients.iter().any(|client| client.name != "*") && client_ca.is_none() {
            messages.push(
                "client: without client_ca in [tls] clients cannot identify themselves; add the \
                    file of the authorities that sign their certificates"
                    .to_string(),
            );
        }
        let without = self
            .listen
            .iter()
            .filter(|listen| !has_certificate && listen.tls(false) != TlsPolicy::Off);
        messages.extend(without.map(|listen| {
            format!("{listen}: TLS needs a certificate; add [tls] with certificate and key")
        }));
        messages
    }

    /// The HTTP endpoints with their addresses, and whether other machines may reach them.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = (HttpEndpoint, &str, bool)> {
        [
            (HttpEndpoint::Metrics, &self.metrics, self.metrics_public),
            (HttpEndpoint::Web, &self.web, self.web_public),
        ]
        .into_iter()
        .filter_map(|(endpoint, address, public)| Some((endpoint, address.as_deref()?, public)))
    }

    /// The settings of the configuration that may be changed while serving.
    #[must_use]
    pub fn configured(&self) -> Configured {
        let values = Values {
            policy: self.policy.clone(),
            outstanding: self.outstanding,
            tunables: self.tunables.clone(),
            auto_table: self.auto_table.clone(),
        };
        Configured { values, names: self.tuned.clone() }
    }

    /// Settings of a latency map where there is none.
    fn map_contradictions(&self) -> Option<String> {
        match &self.model {
            ModelSource::Profile if self.map_named => Some(
                "map: these are settings of a latency map, but model = \"profile\" uses none; add \
                    model = \"compact\" or \"matrix\", or leave [map] out"
                    .to_owned(),
            ),
            _ if self.map_sharing == MapSharing::Own => None,
            ModelSource::Map { kind: MapKind::Matrix, start: MapStart::File(_) } => {
                let (setting, instead) = match self.map_saving {
                    MapSaving::Never => ("save = \"never\"", "save = \"10min\""),
                    _ if self.map.matrix.count_samples => {
                        ("count_samples = true", "count_samples = false")
                    }
                    _ => return None,
                };
                Some(format!(
                    "map: {setting} cannot be combined with shared = true, which merges the map \
                        with its file again and again; set {instead}, or leave shared out"
                ))
            }
            model => Some(format!(
                "map: shared = true needs a matrix with a file, but model is \"{model}\"; set \
                    model = \"matrix:FILE\", or leave shared out"
            )),
        }
    }

    /// Settings of block devices that can have no effect. A path is known to be a device only when
    /// it is opened.
    fn raw_contradictions(&self) -> Vec<String> {
        let settings = [
            ("queue_depth", self.raw.queue_depth.is_some()),
            ("write_cache", self.raw.write_cache != WriteCache::Keep),
        ];
        let present = settings.into_iter().filter_map(|(key, present)| present.then_some(key));
        let contradiction = |key: &str| match &self.drive {
            Some(locator) if !matches!(locator, Locator::Path(_)) => Some(format!(
                "{key} is a setting of block devices, but the drive is {locator}; leave {key} out"
            )),
            _ if self.raw.kernel_knobs == KernelKnobs::Keep && key == "write_cache" => Some(
                "write_cache is set through the kernel, but kernel_knobs = keep forbids that; \
                    leave one of them out"
                    .to_string(),
            ),
            _ => None,
        };
        present.filter_map(contradiction).collect()
    }
}

/// The settings of a latency map from texts `key=value`, as in `--map`.
///
/// # Errors
/// All errors of the texts.
pub fn map_settings(pairs: &[String]) -> Result<MapSettings, TextErrors> {
    Config::from_flags(&Flags { map: pairs.to_vec(), ..Flags::default() }).map(|config| config.map)
}

impl VolumeSpec {
    /// A volume from `NAME[=SIZE][,key=value…]`. A description may contain anything but a comma.
    ///
    /// # Errors
    /// All errors of the text.
    pub fn from_flag(text: &str) -> Result<Self, ValueErrors> {
        let mut volume = Self::default();
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let (name, size) =
            first.split_once('=').map_or((first, None), |(name, size)| (name, Some(size)));
        let named = volume.set("name", name);
        let sized = size.map_or(Ok(()), |size| volume.set("size", size));
        let mut seen = vec!["name"];
        seen.extend(size.map(|_| "size"));
        let others = parts.map(|part| {
            let key = part.split_once('=').map_or(part, |(key, _)| key);
            if seen.contains(&key) {
                let twice = format!("volume: {key} is given twice; write it once");
                return Err(Value::flag(key, part).error(twice));
            }
            seen.push(key);
            set_pair(VOLUME_KEYS, "volume", &mut volume, part)
        });
        ValueErrors::join([named, sized].into_iter().chain(others))?;
        Ok(volume)
    }

    /// Sets a key of [`VOLUME_KEYS`] from text, as in `--volume NAME,key=value`.
    ///
    /// # Errors
    /// An unknown key, or a wrong value.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), ValueErrors> {
        set(&[VOLUME_KEYS], self, key, text)
    }
}

fn appears_twice(volume: &str) -> String {
    format!("volume {volume} appears twice; give each volume a name of its own")
}
