//! What is served and how: one [`Config`], from a TOML file, from flags, or from both.
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
//! Every key stands in one of six tables ([`SERVER_KEYS`], [`VOLUME_KEYS`], [`MAP_KEYS`],
//! [`LIMIT_KEYS`], [`TLS_KEYS`], [`CLIENT_KEYS`]) with its meaning and default; the TOML reader,
//! the flags, the messages and the documentation iterate over them. A key that is not in its table
//! is an error. All mistakes of a file are reported together, each with file, line and column.
//!
//! Flags come after the file: a value given by flag replaces the file's, a volume given by flag is
//! added or replaces the file's of the same name, and `--listen` replaces all of the file's
//! addresses.

mod errors;
mod file;
mod keys;
mod listen;
mod map_keys;
mod tls_keys;
mod value;

use std::collections::BTreeSet;
use std::path::PathBuf;

use headtime_belief::maps::MapSettings;
use headtime_io::{
    BelievedBy, CommandTimeout, KernelKnobs, Locator, PolicyChoice, ProfileSource, RawOptions,
    WriteCache,
};
use headtime_nbd::server::TlsPolicy;
use headtime_sched::{TUNABLES, Tunables};
use headtime_units::{ByteSize, Nanos, Share};

use crate::maps::MapSaving;
use crate::memory;
use crate::pieces::WINDOW;
use crate::tls::{ClientConfig, TlsConfig};
use crate::tuner::{Configured, Values};
use crate::volumes::{SettingsChange, VolumeSpec};

pub use errors::{ConfigError, ConfigErrors, Place};
pub use keys::{LIMIT_KEYS, SERVER_KEYS, VOLUME_KEYS};
pub use listen::{DEFAULT_PORT, DEFAULT_SOCKET_MODE, Listen, ListenError};
pub use map_keys::MAP_KEYS;
pub use tls_keys::{CLIENT_KEYS, TLS_KEYS};
pub use value::{Key, Value};

/// Everything `headtime serve` is told.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The drive; [`Config::check`] demands one.
    pub drive: Option<Locator>,
    /// The size of the file to create when the drive is a path and nothing is there.
    pub create: Option<ByteSize>,
    /// Who chooses what goes to the drive next.
    pub policy: PolicyChoice,
    /// How many commands the drive holds, whatever the policy would like; `None` leaves it to the
    /// policy.
    pub outstanding: Option<usize>,
    /// What else may be changed while serving.
    pub tunables: Tunables,
    /// What of all that stands in the configuration, and so counts again after a restart.
    pub tuned: BTreeSet<&'static str>,
    /// By what places and times of the drive are believed.
    pub belief: BelievedBy,
    /// What a latency map is told.
    pub map: MapSettings,
    /// When it is saved into its file by itself.
    pub map_saving: MapSaving,
    /// Whether anything of a map is set.
    pub map_named: bool,
    /// What is done to the kernel and the drive when it is a block device.
    pub raw: RawOptions,
    /// How long the drive may leave a command without an answer before its requests fail.
    pub command_timeout: CommandTimeout,
    /// The control socket.
    pub control: PlaceChoice,
    /// The directory in which scans are remembered.
    pub state: PlaceChoice,
    /// By which part the mean response of clients may grow by scans.
    pub max_impact: MaxImpact,
    /// What is believed of the drive, beside what it says of itself.
    pub profile: Option<ProfileSource>,
    /// Where figures are given out, as HOST:PORT.
    pub metrics: Option<String>,
    /// Whether other machines may ask for them.
    pub metrics_public: bool,
    /// Where clients are awaited.
    pub listen: Vec<Listen>,
    /// Certificates for TLS.
    pub tls: TlsConfig,
    /// What clients may see, by their certificates; everything when there is none.
    pub clients: Vec<ClientConfig>,
    /// Whether a drive with other content, or with a damaged table of volumes, may be overwritten.
    pub initialize: bool,
    /// The volumes to serve; when there are none, all that the drive remembers.
    pub volumes: Vec<VolumeConfig>,
    /// Bounds.
    pub limits: ServeLimits,
}

/// Where something of a drive is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PlaceChoice {
    /// Beside the drive, where it has a place.
    #[default]
    Beside,
    /// Nowhere.
    Off,
    /// There.
    At(PathBuf),
}

impl PlaceChoice {
    /// The place; `beside` is the one beside the drive.
    #[must_use]
    pub fn path(&self, beside: Option<PathBuf>) -> Option<PathBuf> {
        match self {
            Self::Beside => beside,
            Self::Off => None,
            Self::At(path) => Some(path.clone()),
        }
    }
}

/// By which part the mean response of clients may grow by scans: 1 % unless set, which is a guess
/// at what nobody notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxImpact(pub Share);

impl Default for MaxImpact {
    fn default() -> Self {
        Self(Share::from_billionths(10_000_000).expect("a hundredth is a share"))
    }
}

/// One volume as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeConfig {
    /// Its name, which is its export's.
    pub name: String,
    /// Its size; may be left out for a volume that the drive remembers.
    pub size: Option<ByteSize>,
    /// What of its settings is to be otherwise than the drive remembers, or than the default for a
    /// new volume.
    pub settings: SettingsChange,
}

/// Bounds of the server. What they add up to is [`ServeLimits::memory_bound`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeLimits {
    /// Most connections at once; one more is closed at once.
    pub connections: u32,
    /// Bytes that all connections share for requests in flight and replies not yet sent, beyond
    /// what each has of its own.
    pub memory: ByteSize,
    /// Bytes that each connection has of its own, so that it gets on whatever the others do.
    pub connection_memory: ByteSize,
    /// Most bytes of requests in flight on one connection.
    pub connection_bytes: ByteSize,
    /// Most requests in flight on one connection.
    pub connection_requests: u32,
    /// Longest read or write a client may ask for.
    pub request: ByteSize,
    /// Longest request handed to the scheduler; longer ones are split.
    pub piece: ByteSize,
    /// Most pieces at the scheduler at once.
    pub pieces: u32,
    /// Time from connecting to opening an export.
    pub handshake_timeout: Nanos,
    /// When others wait for memory: the time in which a connection that holds shared memory must
    /// move some of it.
    pub stall_timeout: Nanos,
}

/// What stood on the command line; texts are as the user wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--drive LOCATOR`.
    pub drive: Option<String>,
    /// `--create SIZE`.
    pub create: Option<String>,
    /// `--policy NAME[:parameter=value,…]`.
    pub policy: Option<String>,
    /// `--outstanding N`.
    pub outstanding: Option<String>,
    /// `--queue-depth N`.
    pub queue_depth: Option<String>,
    /// `--write-cache keep|on|off`.
    pub write_cache: Option<String>,
    /// `--kernel-knobs set|keep`.
    pub kernel_knobs: Option<String>,
    /// `--set NAME=VALUE`, any number of times.
    pub tunables: Vec<String>,
    /// `--belief profile|matrix|compact[:FILE]`.
    pub belief: Option<String>,
    /// `--map key=value`, any number of times.
    pub map: Vec<String>,
    /// `--command-timeout TIME`, or `never`.
    pub command_timeout: Option<String>,
    /// `--control PATH`, or `off`.
    pub control: Option<String>,
    /// `--state DIRECTORY`, or `off`.
    pub state: Option<String>,
    /// `--max-impact SHARE`.
    pub max_impact: Option<String>,
    /// `--profile FILE`.
    pub profile: Option<String>,
    /// `--metrics HOST:PORT`.
    pub metrics: Option<String>,
    /// `--metrics-public`.
    pub metrics_public: bool,
    /// `--listen unix:PATH` or `--listen tcp:HOST:PORT`, any number of times.
    pub listen: Vec<String>,
    /// `--initialize`.
    pub initialize: bool,
    /// `--volume NAME[=SIZE][,key=value…]`, any number of times.
    pub volumes: Vec<String>,
    /// `--limit key=value`, any number of times.
    pub limits: Vec<String>,
}

impl Default for ServeLimits {
    /// 256 connections of 1 MiB each and 512 MiB for all, which together stay below 1 GiB. Guesses,
    /// all of them, within what the protocol recommends.
    fn default() -> Self {
        Self {
            connections: 256,
            memory: ByteSize::new(512 << 20),
            connection_memory: ByteSize::new(1 << 20),
            connection_bytes: ByteSize::new(64 << 20),
            connection_requests: 256,
            request: ByteSize::new(32 << 20),
            piece: ByteSize::new(1 << 20),
            pieces: 16_384,
            handshake_timeout: Nanos::from_secs(10),
            stall_timeout: Nanos::from_secs(30),
        }
    }
}

impl Config {
    /// Reads a TOML file's `text`; `name` is what messages call the file.
    ///
    /// # Errors
    /// All mistakes in it, each with line and column. Whether the configuration is complete says
    /// [`Config::check`].
    pub fn from_toml(name: &str, text: &str) -> Result<Self, ConfigErrors> {
        file::read(name, text)
    }

    /// A configuration from flags alone.
    ///
    /// # Errors
    /// All mistakes in them. Whether the configuration is complete says [`Config::check`].
    pub fn from_flags(flags: &Flags) -> Result<Self, ConfigErrors> {
        let mut config = Self::default();
        config.apply(flags)?;
        Ok(config)
    }

    /// Lets flags have the last word.
    ///
    /// # Errors
    /// All mistakes in them; the configuration is then half changed and of no use.
    pub fn apply(&mut self, flags: &Flags) -> Result<(), ConfigErrors> {
        let mut errors = Vec::new();
        let mut set = |config: &mut Self, key: &str, text: &str| {
            let known = value::find(SERVER_KEYS, key).expect("the flag has a key of its own name");
            if let Err(message) = (known.set)(config, Value::Flag(text)) {
                errors.push(ConfigError {
                    place: Place::Flag(format!("--{} {text}", key.replace('_', "-"))),
                    message,
                });
            }
        };
        if !flags.listen.is_empty() {
            self.listen.clear();
        }
        let single = [
            ("drive", &flags.drive),
            ("create", &flags.create),
            ("policy", &flags.policy),
            ("outstanding", &flags.outstanding),
            ("belief", &flags.belief),
            ("command_timeout", &flags.command_timeout),
            ("queue_depth", &flags.queue_depth),
            ("write_cache", &flags.write_cache),
            ("kernel_knobs", &flags.kernel_knobs),
            ("control", &flags.control),
            ("state", &flags.state),
            ("max_impact", &flags.max_impact),
            ("profile", &flags.profile),
            ("metrics", &flags.metrics),
        ];
        for (key, text) in single.iter().filter_map(|(key, text)| Some((*key, text.as_ref()?))) {
            set(self, key, text);
        }
        for text in &flags.listen {
            set(self, "listen", text);
        }
        self.initialize |= flags.initialize;
        self.metrics_public |= flags.metrics_public;
        let mut flagged: Vec<VolumeConfig> = Vec::new();
        for text in &flags.volumes {
            let mistake =
                |message| ConfigError { place: Place::Flag(format!("--volume {text}")), message };
            match VolumeConfig::from_flag(text) {
                Ok(volume) if flagged.iter().any(|other| other.name == volume.name) => {
                    errors.push(mistake(format!(
                        "volume {} is there twice; give each volume a name of its own",
                        volume.name
                    )));
                }
                Ok(volume) => flagged.push(volume),
                Err(messages) => errors.extend(messages.into_iter().map(mistake)),
            }
        }
        self.volumes.retain(|volume| flagged.iter().all(|other| other.name != volume.name));
        self.volumes.extend(flagged);
        for text in &flags.tunables {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            let known = TUNABLES
                .iter()
                .any(|tunable| tunable.name == name)
                .then(|| value::find(SERVER_KEYS, name));
            let set = match known {
                Some(key) => key.and_then(|key| (key.set)(self, Value::Flag(value))),
                None => self.tunables.set(name, value).map_err(|error| error.to_string()),
            };
            if let Err(message) = set {
                errors.push(ConfigError { place: Place::Flag(format!("--set {text}")), message });
            }
        }
        for text in &flags.map {
            self.map_named = true;
            if let Err(message) = value::set_pair(MAP_KEYS, "map", self, text) {
                errors.push(ConfigError { place: Place::Flag(format!("--map {text}")), message });
            }
        }
        for text in &flags.limits {
            if let Err(message) = value::set_pair(LIMIT_KEYS, "limit", &mut self.limits, text) {
                errors.push(ConfigError { place: Place::Flag(format!("--limit {text}")), message });
            }
        }
        ConfigErrors::unless_empty(errors)
    }

    /// Whether the configuration is complete and its parts go together.
    ///
    /// # Errors
    /// Everything that is missing or contradicts.
    pub fn check(&self) -> Result<(), ConfigErrors> {
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
                "create makes a file for a drive that is a path; an emulated drive makes \
                its own, so leave create out"
                    .to_string(),
            );
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
                messages.push(format!("the address {listen} is there twice; leave one out"));
            }
        }
        for (index, volume) in self.volumes.iter().enumerate() {
            if self.volumes[..index].iter().any(|other| other.name == volume.name) {
                messages.push(format!(
                    "volume {} is there twice; give each volume a name of its own",
                    volume.name
                ));
            }
        }
        messages.extend(self.tls_contradictions());
        messages.extend(self.limits.contradictions());
        ConfigErrors::unless_empty(
            messages
                .into_iter()
                .map(|message| ConfigError { place: Place::Whole, message })
                .collect(),
        )
    }

    /// What is said of TLS and does not go together.
    fn tls_contradictions(&self) -> Vec<String> {
        let TlsConfig { certificate, key, client_ca, client_crl } = &self.tls;
        let mut messages = Vec::new();
        if certificate.is_some() != key.is_some() {
            messages.push("tls: certificate and key belong together; name both".to_string());
        }
        let there_is = certificate.is_some();
        if client_ca.is_some() && !there_is {
            messages.push(
                "tls: client_ca says whose certificates are trusted, and without certificate and \
                    key there is no TLS; name them too"
                    .to_string(),
            );
        }
        if client_crl.is_some() && client_ca.is_none() {
            messages.push(
                "tls: client_crl says which certificates of clients are revoked, and without \
                    client_ca none is asked for; name it too"
                    .to_string(),
            );
        }
        if self.clients.iter().any(|client| client.name != "*") && client_ca.is_none() {
            messages.push(
                "client: without client_ca in [tls] no client can show who it is; name the \
                    file of who signs their certificates"
                    .to_string(),
            );
        }
        let without =
            self.listen.iter().filter(|listen| !there_is && listen.tls(false) != TlsPolicy::Off);
        messages.extend(without.map(|listen| {
            format!("{listen}: there is no certificate for TLS; add [tls] with certificate and key")
        }));
        messages
    }

    /// What stands in the configuration of what may be changed while serving.
    #[must_use]
    pub fn configured(&self) -> Configured {
        let values = Values {
            policy: self.policy.clone(),
            outstanding: self.outstanding,
            tunables: self.tunables.clone(),
        };
        Configured { values, names: self.tuned.clone() }
    }

    /// Settings of a map where there is none, or no file to save it in.
    fn map_contradictions(&self) -> Option<String> {
        match &self.belief {
            BelievedBy::Profile if self.map_named => Some(
                "map: these are settings of a latency map, and belief = profile goes by none; \
                    add belief = \"compact\" or \"matrix\", or leave [map] out"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// Settings of raw devices where they cannot have an effect. Whether a path leads to a device
    /// is seen when it is opened.
    fn raw_contradictions(&self) -> Vec<String> {
        let asked = [
            ("queue_depth", self.raw.queue_depth.is_some()),
            ("write_cache", self.raw.write_cache != WriteCache::Keep),
        ];
        let asked = asked.into_iter().filter_map(|(key, asked)| asked.then_some(key));
        let contradiction = |key: &str| match &self.drive {
            Some(locator) if !matches!(locator, Locator::Path(_)) => Some(format!(
                "{key} is a setting of block devices, and {locator} is none; leave \
                    {key} out"
            )),
            _ if self.raw.kernel_knobs == KernelKnobs::Keep && key == "write_cache" => Some(
                "write_cache is set through the kernel, and kernel_knobs = keep forbids that; \
                    leave one of them out"
                    .to_string(),
            ),
            _ => None,
        };
        asked.filter_map(contradiction).collect()
    }
}

/// The settings of a latency map from texts `key=value`, as behind `--map`.
///
/// # Errors
/// All mistakes in them.
pub fn map_settings(pairs: &[String]) -> Result<MapSettings, ConfigErrors> {
    Config::from_flags(&Flags { map: pairs.to_vec(), ..Flags::default() }).map(|config| config.map)
}

impl VolumeConfig {
    /// A volume from `NAME[=SIZE][,key=value…]`. A description may hold everything but a comma.
    ///
    /// # Errors
    /// The messages of all mistakes in it.
    pub fn from_flag(text: &str) -> Result<Self, Vec<String>> {
        let mut volume = Self::default();
        let mut messages = Vec::new();
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let (name, size) =
            first.split_once('=').map_or((first, None), |(name, size)| (name, Some(size)));
        for (key, text) in [("name", Some(name)), ("size", size)] {
            let Some(text) = text else { continue };
            let known = value::find(VOLUME_KEYS, key).expect("a volume has a name and a size");
            messages.extend((known.set)(&mut volume, Value::Flag(text)).err());
        }
        messages
            .extend(parts.filter_map(|part| {
                value::set_pair(VOLUME_KEYS, "volume", &mut volume, part).err()
            }));
        if messages.is_empty() { Ok(volume) } else { Err(messages) }
    }

    /// Sets a key of [`VOLUME_KEYS`] from text, as behind `--volume NAME,`.
    ///
    /// # Errors
    /// The message of what is wrong with the key or its value.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        (value::find(VOLUME_KEYS, key)?.set)(self, Value::Flag(text))
    }

    /// What the drive's table is asked for.
    #[must_use]
    pub fn wanted(&self) -> VolumeSpec {
        let Self { name, size, settings } = self.clone();
        VolumeSpec { name, size, settings }
    }
}

impl ServeLimits {
    /// The most bytes that requests and replies of all connections take together:
    ///
    /// ```text
    /// memory + connections × (connection_memory + connection_requests × 1 KiB + 96 KiB) + pieces × 512
    /// ```
    /// 1 KiB is what the protocol machine keeps of a request beside its data, 96 KiB its buffers
    /// for headers, options and their answers (`headtime_nbd`'s own formula), 512 bytes what the
    /// scheduler and the engine keep of a piece. Beside that, each connection may be sending one
    /// list of the exports, and of what a drive has in hand the engine may hold a second copy,
    /// aligned for direct I/O: its queue depth times `piece`. Over TLS a connection takes
    /// [`TLS_BYTES`](crate::tls::TLS_BYTES) more.
    #[must_use]
    pub fn memory_bound(&self) -> ByteSize {
        let of_its_own =
            self.connection_memory.get() + u64::from(self.connection_requests) * 1024 + (96 << 10);
        ByteSize::new(
            self.memory.get()
                + u64::from(self.connections) * of_its_own
                + u64::from(self.pieces) * 512,
        )
    }

    /// Bytes that one request needs at the most: its own, and the pieces of a CACHE request beside
    /// it.
    pub(crate) fn longest_bytes(&self) -> u64 {
        self.request.get() + WINDOW as u64 * self.piece.get()
    }

    /// Bytes of requests in flight that a connection is sure to be given memory for in the end,
    /// however many exports have their guaranteed part: its own, and the part of the pool that
    /// nobody is guaranteed, less what a CACHE request may need beside them.
    pub(crate) fn grantable_bytes(&self) -> u64 {
        let window = WINDOW as u64 * self.piece.get();
        let unkept = memory::unkept_pages(self) * memory::PAGE_BYTES;
        (self.connection_memory.get() + unkept).saturating_sub(window).max(self.request.get())
    }

    fn contradictions(&self) -> Vec<String> {
        let at_least = |key: &str, value: ByteSize, other: &str, least: ByteSize| {
            (value < least).then(|| {
                format!(
                    "limits: {key} = {value} is less than {other} = \
                {least}; raise {key} or lower {other}"
                )
            })
        };
        [
            at_least(
                "memory",
                self.memory,
                "request and four times piece",
                ByteSize::new(self.longest_bytes()),
            ),
            at_least("connection_bytes", self.connection_bytes, "request", self.request),
            at_least("request", self.request, "piece", self.piece),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
