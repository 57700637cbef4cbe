//! The rates of streams under a policy.

use std::sync::Arc;

use headtime_belief::ArrayModel;
use headtime_mechanics::{DriveProfile, Stripes, catalog};
use headtime_sched::{Belief, PolicyEntry, Tenant, Terms};
use headtime_sim::{ArrayMembers, Experiment, StreamFigures, StreamMeasures, run};
use headtime_units::{Extent, Nanos, Sectors};
use headtime_workload::file::WorkloadFile;
use headtime_workload::{Order, Sizes, StreamConfig};

use super::measure;

/// The results of these streams on a 20 TB drive in five seconds, each stream in its own part.
pub(crate) fn on_a_large_drive(policy: &str, streams: &[StreamConfig]) -> Vec<StreamFigures> {
    let profile = Arc::new(catalog::load("nearline-20tb").expect("the profile ships"));
    let part = profile.capacity().get() / streams.len() as u64;
    let placed: Vec<StreamConfig> = (0..)
        .zip(streams)
        .map(|(number, stream)| StreamConfig {
            range: Some(Extent::from_numbers(number * part, part)),
            ..stream.clone()
        })
        .collect();
    let experiment = Experiment {
        by_stream: true,
        requests: u64::MAX,
        warm_up_time: Some(Nanos::from_secs(1)),
        length: Some(Nanos::from_secs(5)),
        ..Experiment::new(
            profile,
            PolicyEntry::find(policy).expect("the policy is in the table"),
            1,
        )
    };
    measure(&experiment, &placed).streams.iter().map(StreamMeasures::figures).collect()
}

pub(crate) fn sequential(clients: u32, bytes: u64) -> StreamConfig {
    StreamConfig {
        sizes: Sizes::Fixed { bytes },
        order: Order::Sequential,
        positions: Some(1),
        ..StreamConfig::closed(clients)
    }
}

/// Its requests are many at a time, in one run after the other.
pub(crate) const PAGE_CACHE: &str = "{ size = '256KiB', think = '1ms', range = '10%..40%', \
    process = { kind = 'writer', file = '1GiB', memory = '256MiB' } }";

/// The requests per second of each of these streams, as a workload file describes them. A drive is
/// the name of a profile; `4*NAME` is an array of four, with stripes of 128 KiB.
pub(crate) fn rates(drive: &str, streams: &[&str]) -> Vec<f64> {
    rates_under("headtime", drive, streams)
}

pub(crate) fn rates_under(policy: &str, drive: &str, streams: &[&str]) -> Vec<f64> {
    rates_with(Vec::new(), policy, drive, streams)
}

/// The rates of streams where volumes, which are numbered as the streams are, have terms.
pub(crate) fn rates_with(
    terms: Vec<(Tenant, Terms)>,
    policy: &str,
    drive: &str,
    streams: &[&str],
) -> Vec<f64> {
    let figures = figures_with(terms, policy, drive, streams);
    figures.iter().map(|stream| stream.iops).collect()
}

pub(crate) fn figures_with(
    terms: Vec<(Tenant, Terms)>,
    policy: &str,
    drive: &str,
    streams: &[&str],
) -> Vec<StreamFigures> {
    let text = format!("stream = [{}]", streams.join(", "));
    let file = WorkloadFile::from_toml("streams", &text).expect("the text is right");
    let (count, drive) = drive.split_once('*').unwrap_or(("1", drive));
    let members: usize = count.parse().expect("a number");
    let profile = Arc::new(catalog::load(drive).expect("the profile ships"));
    let sector = profile.sector_size().expect("the profile ships");
    let stripe = Sectors::new(128 * 1024 / u64::from(profile.sector_bytes));
    let capacity = match members {
        1 => profile.capacity(),
        _ => Stripes::new(stripe, members).capacity(profile.capacity()),
    };
    let source = file.workload(sector, capacity, 1, 1).expect("it fits the drive");
    let array = (members > 1).then(|| ArrayMembers {
        others: vec![profile.clone(); members - 1],
        stripe,
        divide_at: Some(stripe),
    });
    let experiment = Experiment {
        array,
        by_stream: true,
        requests: u64::MAX,
        warm_up_time: Some(Nanos::from_secs(4)),
        length: Some(Nanos::from_secs(20)),
        terms,
        ..Experiment::new(profile, PolicyEntry::find(policy).expect("it is there"), 1)
    };
    let belief = |profile: &DriveProfile| -> Box<dyn Belief + Send> {
        let of_member = || headtime_belief::of_profile(profile).expect("the profile ships");
        match members {
            1 => of_member(),
            _ => Box::new(ArrayModel::by_member(
                (0..members).map(|_| -> Box<dyn Belief + Send> { of_member() }).collect(),
                stripe,
                0,
            )),
        }
    };
    let measures = run(&experiment, source, &belief).expect("the streams are served");
    measures.streams.iter().map(StreamMeasures::figures).collect()
}
