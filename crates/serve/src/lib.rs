//! Volumes on a drive, the NBD exports in front of them, and the scans behind them: what stands
//! between the engine of one drive and its clients.
//!
//! [`Server::start`] takes a [`config::Config`], opens the drive, finds or makes its volumes
//! ([`volumes`]) and serves each as an NBD export of its name; [`serve_alone`] serves a whole drive
//! with nothing in front. A server has threads of its own; its API is for code that may block.
//!
//! ```
//! use std::time::Duration;
//! use headtime_serve::{Server, config::{Config, Flags}};
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = |name: &str| directory.path().join(name).display().to_string();
//! let flags = Flags {
//!     drive: Some(path("drive.img")),
//!     create: Some("16MiB".to_string()),
//!     volumes: vec!["vol0=8MiB,deadline=100ms".to_string()],
//!     listen: vec![format!("unix:{}", path("nbd.sock"))],
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
//! # What is promised to clients
//!
//! - Replies come in any order. All connections of all volumes go to one scheduler, so an export
//!   may be opened many times (multi-conn): a completed flush on any connection covers every write
//!   that had completed on any other.
//! - A write that was answered survives the death of the server; what a completed flush covers, or
//!   was written with force unit access, survives the machine's.
//! - Errors reach the request they belong to, with the system's meaning: a full file system is
//!   ENOSPC, a failed medium EIO.
//! - A request is answered once; what happens to requests whose client leaves stands in
//!   `connection`'s header.
//! - `base:allocation` says that everything is allocated. That is always true, and all that is
//!   known of a raw drive.
//!
//! # Scans
//!
//! [`scans`] reads volumes in the time that clients leave: scrubs, digests, backups. They are told
//! what to do by [`Server::scans`], or over the control socket ([`control`]).
//!
//! # What it costs in memory
//!
//! [`config::ServeLimits::memory_bound`], whatever clients do; beside that, for each scan, what
//! [`headtime_tasks`] says and some 25 MiB at most on their way.

#![warn(missing_docs)]

mod alone;
mod arrivals;
pub mod config;
mod connection;
pub mod control;
mod default_paths;
mod disk;
mod export;
mod fair_semaphore;
mod listener;
pub mod maps;
mod memory;
pub mod metrics;
mod notify;
mod pieces;
mod reload;
pub mod scans;
mod server;
mod socket;
mod stats;
pub mod status;
pub mod tls;
pub mod tuner;
pub mod volumes;

pub use alone::{ALONE_EXPORT, serve_alone};
pub use default_paths::{control_socket_alone, default_control_socket, default_state_directory};
pub use disk::{Disk, OnDone};
pub use listener::BindError;
pub use reload::Reloader;
pub use server::{Drained, ExportUri, Server, StartError, VolumeReport};
pub use stats::{OpStats, ResponseTimes, Stats, StatsSnapshot, VolumeStats};
