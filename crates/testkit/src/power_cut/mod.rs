//! A drive in memory whose power can be cut, for tests of what software keeps across a power
//! failure.
//!
//! [`PowerCutDrive`] opens an ordinary [`Drive`](headtime_io::Drive) on a [`Platter`], and a
//! [`PowerSwitch`] beside it. Whatever is going on, also with requests under way, the switch says
//! what would be found on the platter if the power failed at this moment, by the rules below and a
//! source of randomness; the drive itself goes on. A drive that records its [`History`] can be cut
//! afterwards at every moment of it, thousands of times in the time of one run.
//!
//! ```
//! use bytes::Bytes;
//! use headtime_testkit::power_cut::{Platter, PowerCutDrive, PowerFailure};
//! use headtime_io::{DriveOptions, Io};
//! use headtime_units::{Extent, SectorSize, Sectors};
//! use rand::SeedableRng;
//!
//! let platter = Platter::blank(SectorSize::B512, Sectors::new(1000));
//! let (drive, switch) = PowerCutDrive::new(platter).open(DriveOptions::default())?;
//! let extent = Extent::from_numbers(8, 1);
//! let (old, new) = (Bytes::from(vec![1; 512]), Bytes::from(vec![2; 512]));
//! let handle = drive.handle();
//! handle.run(Io::write(extent, old.clone())).result?;
//! handle.run(Io::flush()).result?;
//! handle.run(Io::write(extent, new.clone())).result?;
//!
//! let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(7);
//! let cut = |_| switch.cut(PowerFailure::default(), &mut rng).read(extent);
//! let found: Vec<Bytes> = (0..100).map(cut).collect::<Result<_, _>>()?;
//! assert!(found.contains(&old), "the second write may be lost");
//! assert!(found.contains(&new), "or it may survive");
//! assert!(found.iter().all(|sector| [&old, &new].contains(&sector)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What survives
//! A write (also a zero or a discard, which write zeroes) is *settled* when it was reported with
//! force unit access, or when a flush was reported that had been sent to the drive after the write
//! was reported. What is settled is found after every cut, unless something newer is found on the
//! same sectors.
//!
//! # What may happen to everything else
//! - Each write that is not settled, reported or under way, is found, lost, or torn ([`Tear`]): any
//!   of its sectors are found, in whatever order.
//! - Writes do not wait for each other: a later one may be found without an earlier one, also
//!   across a flush that was not reported.
//! - A sector holds one write's content, whole. Of several unsettled writes to one sector any may
//!   be found, also the older: it may have gone to the platter before the newer one came. None is
//!   found that came before a settled one.
//! - A flush that was not reported, or failed, promises nothing.
//! - A write that failed was taken in up to some sector, which is then as good as written, and not
//!   after it.
//! - With [`Casualty::OneBlock`], one physical block that may have been under the head cannot be
//!   read until it is written.
//!
//! *Harsher than drives*: sectors of one command are found in any order, where a drive writes them
//! as they pass; a cached sector survives however old it is, or not however recent. *Milder than
//! some drives*: a sector is never a mixture, and never silently wrong; at most one block is
//! unreadable; power is not cut while it returns; writing a part of an unreadable physical block
//! succeeds. *Not modelled*: shingled recording, media that wear, arrays.

mod cache;
mod drive;
mod failure;
mod history;
mod platter;
#[cfg(test)]
mod tests;

pub use drive::{BrokenPromises, FailedFlush, PowerCutDrive, PowerSwitch};
pub use failure::{Casualty, PowerFailure, Tear};
pub use history::{Cutter, Event, EveryPlatter, History};
pub use platter::{Platter, Unreadable};
