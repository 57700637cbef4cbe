//! Traces: every format by hand-made samples, round trips, detection, damage; adjusting, placing,
//! replaying.

#[path = "traces/damage.rs"]
mod damage;
#[path = "traces/detection.rs"]
mod detection;
#[path = "traces/formats.rs"]
mod formats;
#[path = "traces/placing.rs"]
mod placing;
#[path = "traces/replaying.rs"]
mod replaying;
#[path = "traces/round_trips.rs"]
mod round_trips;
#[path = "traces/samples.rs"]
mod samples;
