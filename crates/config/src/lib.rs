//! One reader for configuration texts: `headtime.toml`, workload files, files of needs, and the
//! `key=value` pairs of the command line.
//!
//! A configuration is described by tables of [`Key`]s. Each key has a name, an explanation, a
//! default, and a function that sets it from a [`Value`]. The reader, the help texts, the
//! documentation and its tests use the same tables. All errors of a text are reported together
//! ([`TextErrors`]), each with its line and column; a key that is in no table is an error.
//!
//! ```
//! use headtime_config::{Key, read};
//!
//! #[derive(Default)]
//! struct Cache { size: u64 }
//! const KEYS: &[Key<Cache>] = &[Key {
//!     name: "size",
//!     takes: "SIZE",
//!     summary: "size of the cache",
//!     default: "0",
//!     set: |cache, value| value.size().map(|size| cache.size = size.get()),
//! }];
//!
//! let mut cache = Cache::default();
//! read("cache.toml", "size = \"4KiB\"", &mut cache, &[KEYS])?;
//! assert_eq!(cache.size, 4_096);
//! let errors = read("cache.toml", "\nsice = 3", &mut cache, &[KEYS]).unwrap_err();
//! assert_eq!(errors.to_string(), "cache.toml:2:1: unknown key `sice`; known are size");
//! # Ok::<(), headtime_config::TextErrors>(())
//! ```
#![no_std]

extern crate alloc;

mod errors;
mod key;
mod value;

pub use errors::{TextError, TextErrors, ValueErrors};
pub use key::{Document, Key, REQUIRED, read, set, set_pair};
pub use value::Value;
