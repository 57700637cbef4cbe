//! The server: volumes on a drive, NBD exports for clients, and scans. It connects the engine of
//! one drive to its clients.
//!
//! [`Server::start`] opens the drive of a [`config::Config`], finds or creates its volumes
//! ([`volumes`]) and serves each as an NBD export of its name. [`serve_alone`] serves a whole drive
//! as one export. A server has its own threads; its API is for code that may block.
//!
//! ```
//! use std::time::Duration;
//! use headtime_serve::{Server, config::{Config, Flags}};
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = |name: &str| directory.path().join(name).display().to_string();
//! let flags = Flags {
//!     keys: vec![
//!         ("drive", path("drive.img")),
//!         ("create", "16MiB".to_string()),
//!         ("listen", format!("unix:{}", path("nbd.sock"))),
//!     ],
//!     volumes: vec!["vol0=8MiB,deadline=100ms".to_string()],
//!     ..Flags::default()
//! };
//! let server = Server::start(&Config::from_flags(&flags)?)?;
//! for uri in server.uris() {
//!     println!("{} at {}", uri.export, uri.uri);
//! }
//! let drained = server.drain(Duration::from_secs(10));
//! assert_eq!(drained.exit_code(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees for clients
//!
//! - Replies come in any order. All connections of all volumes share one scheduler, so an export
//!   may be opened many times (multi-conn): a completed flush on any connection covers every write
//!   that had completed on any other.
//! - An answered write survives a crash of the server. A write covered by a completed flush, or
//!   with force unit access, survives a crash of the machine.
//! - Errors reach the request they belong to, with the system's meaning: a full file system is
//!   ENOSPC, a medium error EIO.
//! - Each request is answered once; the header of `connection` describes requests of a client that
//!   disconnects.
//! - `base:allocation` reports that everything is allocated, which is always true for a raw drive.
//!
//! # Scans
//!
//! [`scans`] reads volumes in disk time that clients do not use: scrubs, digests, backups. They are
//! controlled by [`Server::scans`] or over the control socket ([`control`]).
//!
//! # Memory
//!
//! At most [`config::ServeLimits::memory_bound`], whatever clients do, plus for each scan the
//! memory that [`headtime_tasks`] states and about 25 MiB for data in transit, and about 70 MiB for
//! a relocation of a volume.

#![warn(missing_docs)]

mod alone;
mod arrivals;
mod auto_table;
pub mod beside;
pub mod config;
mod connection;
pub mod control;
mod default_paths;
mod disk;
mod export;
mod fair_semaphore;
mod http;
mod inherited;
mod listener;
pub mod maps;
mod memory;
pub mod metrics;
mod notify;
mod pieces;
mod recent_use;
mod reload;
pub mod scans;
mod server;
mod socket;
mod state_file;
mod stats;
pub mod status;
pub mod tls;
pub mod tuner;
pub mod volumes;
mod web;
mod without_effect;

/// The version of this program; in release builds with the commit.
pub const VERSION: &str = env!("HEADTIME_VERSION");

pub use alone::serve_alone;
pub use auto_table::{read_auto_table, write_auto_table};
pub use default_paths::{
    control_socket_alone, control_sockets, default_control_socket, default_state_directory,
    foreign_control_sockets,
};
pub use disk::{Disk, OnDone};
pub use http::{HttpEndpoint, HttpError};
pub use listener::BindError;
pub use reload::{ReloadError, Reloaded, Reloader};
pub use server::{Drained, ExportUri, Server, StartError, VolumeReport};
pub use stats::{
    OpStats, RESPONSE_BINS_PER_DECADE, RefusalCounts, ResponseTimes, Stats, StatsSnapshot,
    VolumeStats, response_bins,
};
