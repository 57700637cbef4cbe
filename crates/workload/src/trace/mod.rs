//! Traces: the requests of real systems, read from common formats and replayed.
//!
//! A trace passes through five stages, each of which holds a bounded part of it; none opens a file:
//! 1. a [`Decoder`] decodes bytes to [`TraceRecord`]s; [`FORMATS`] is the table of formats, and
//!    [`detect()`] finds the format of some bytes;
//! 2. [`Adjusted`] sorts the records, selects a part, and shifts and scales their times;
//! 3. [`Survey`] passes over all records once, where addresses are to be scaled or packed;
//! 4. [`Placing`] maps bytes of the trace's devices to sectors of one drive;
//! 5. [`TraceSource`] issues the requests: at their times, as fast as they complete, or with the
//!    recorded think times.
//!
//! [`Recording`] is separate: the measured times of one real drive, with which `headtime validate`
//! compares a profile.
//!
//! ```
//! use headtime_units::{Instant, Nanos};
//! use headtime_workload::trace::disksim_validate;
//!
//! let text = "W Hit 4583176 4 663.0 45422.0\nR Hit 3962268 12 6657.0 64047.0\n";
//! let recording = disksim_validate::read("two.trace", text)?;
//! assert_eq!(recording.accesses()[1].response, Nanos::from_us(6_657));
//! // The second was issued when the first one's response and think time were over.
//! assert_eq!(recording.issue_times().nth(1), Some(Instant::from_ns((663 + 45_422) * 1_000)));
//! # Ok::<(), headtime_workload::trace::TraceError>(())
//! ```

mod adjust;
mod counts;
mod decoder;
mod detect;
mod encoder;
mod error;
mod formats;
mod lines;
mod names;
mod order;
mod placement;
mod record;
mod recording;
mod replay;
mod survey;

pub use adjust::{Adjust, Adjusted, TimeScale};
pub use counts::{Counts, Misfit};
pub use decoder::{Action, Decoder, LONGEST_LINE, MAX_NEEDED, Reading, Step, decode};
pub use detect::{Candidate, DetectError, Detection, SAMPLE_BYTES, detect};
pub use encoder::{Encoder, Loss, Losses, Says};
pub use error::TraceError;
pub use formats::{DeviceName, FORMATS, Format, disksim_validate, format};
pub use order::{REORDER_WINDOW, Reordered};
pub use placement::{PlaceError, Placed, Placement, Placing, Remap};
pub use record::TraceRecord;
pub use recording::{Label, RecordedAccess, Recording};
pub use replay::{MAX_STREAMS, Replay, ReplayOptions, Streams, TraceSource};
pub use survey::{Survey, SurveyError};
