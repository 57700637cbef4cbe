//! Finds a drive's slipped sectors in a recording of its accesses, and prints them as the `slips`
//! of a profile's zones.
//!
//! `cargo run --release -p headtime-sim --example find_slips PROFILE TRACE`, such as `cheetah15k5
//! cheetah15k5.trace`
//!
//! The rest of the profile must be right: zones, skews, period, overheads. An access's completion
//! shows the angle at which its last sector passed. After `s` slipped sectors an LBA lies `s`
//! sectors further on, so the angle tells the number of slips before each access, which never
//! decreases with the LBA. Dynamic programming (Viterbi) finds the cheapest such sequence over all
//! even-numbered accesses in LBA order: an access costs its angle error, up to a bound, and a new
//! run of slips costs [`NEW_RUN`]. A run is placed half-way between the two accesses that disagree.
//! Odd-numbered accesses are not used for the search; their fit is printed as the proof.

use std::error::Error;

use headtime_mechanics::{Direction, DriveProfile, InterfaceTimes, Layout, catalog};
use headtime_units::{Angle, Lba, RotationPeriod};
use headtime_workload::Operation;
use headtime_workload::trace::disksim_validate;

/// The cost of a new run of slips.
const NEW_RUN: f64 = 3.5;
/// Maximum cost of one access, so that a single outlier moves nothing.
const MAX_COST: f64 = 4.0;
/// The angle error (late or early) that costs 1, in revolutions: noise delays completions more
/// often than it advances them.
const LATE: f64 = 0.005;
const EARLY: f64 = 0.003;

/// Index angles to try; the first slips absorb the rest.
const PHASES: u64 = 240;

struct Sample {
    last: u64,
    angle: Angle,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, trace] = arguments.as_slice() else { return Err("expected PROFILE TRACE".into()) };
    let profile = without_slips(catalog::load(name)?);
    let layout = Layout::new(&profile)?;
    let period = profile.rotation_period()?;
    let samples = samples(&profile, trace, period)?;
    let mut used: Vec<&Sample> = samples.iter().step_by(2).collect();
    used.sort_by_key(|sample| sample.last);

    let max_slips =
        layout.mapped().get() - samples.iter().map(|sample| sample.last).max().unwrap_or(0) - 1;
    let max_slips = max_slips.min(6_000);
    // The index angle is found first, on a third of the accesses in coarse steps.
    let some: Vec<&Sample> = used.iter().copied().step_by(3).collect();
    let (_, phase) = (0..PHASES)
        .map(|step| Angle::from_fraction(step, PHASES))
        .map(|phase| (cheapest(&layout, &some, phase, max_slips, 16).0, phase))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .ok_or("no phase")?;
    let (cost, slips) = cheapest(&layout, &used, phase, max_slips, 1);
    println!(
        "# {} accesses used, mean cost {cost:.3}, phase {:.4} turns, {} slips in all",
        used.len(),
        phase.as_turns(),
        slips.last().unwrap_or(&0)
    );
    print_zones(&layout, &used, &slips);

    let before =
        |lba: u64| slips[used.partition_point(|sample| sample.last <= lba).saturating_sub(1)];
    let off = |sample: &Sample| error(&layout, sample, before(sample.last), phase).abs();
    for (what, first) in [("used", 0), ("held out", 1)] {
        let errors: Vec<f64> = samples.iter().skip(first).step_by(2).map(off).collect();
        let within = |turns: f64| {
            errors.iter().filter(|error| **error < turns).count() as f64 / errors.len() as f64
        };
        let ms = period.as_ns_f64() / 1e6;
        println!(
            "# {what}: {} accesses, {:.4} within 0.2 ms of their angle, {:.4} within 0.05 ms",
            errors.len(),
            within(0.2 / ms),
            within(0.05 / ms)
        );
    }
    Ok(())
}

/// The profile without defective sectors; their spares are returned.
fn without_slips(mut profile: DriveProfile) -> DriveProfile {
    for zone in &mut profile.zones {
        zone.spares -= zone.slips.len() as u64;
        zone.slips.clear();
    }
    profile.capacity_sectors = None;
    profile
}

fn samples(
    profile: &DriveProfile,
    trace: &str,
    period: RotationPeriod,
) -> Result<Vec<Sample>, Box<dyn Error>> {
    let recording = disksim_validate::read(trace, &std::fs::read_to_string(trace)?)?;
    let interface = InterfaceTimes::from_profile(profile)?;
    let accesses = recording.accesses().iter().zip(recording.completion_times());
    Ok(accesses
        .map(|(access, completed)| {
            let direction = if access.operation == Operation::Read {
                Direction::Read
            } else {
                Direction::Write
            };
            let passed = interface.media_end(direction, access.extent.len, completed);
            Sample { last: access.extent.last().get(), angle: period.angle_at(passed, Angle::ZERO) }
        })
        .collect())
}

/// The sample's angle minus the expected one, in revolutions from −½ to ½, with `slips` slipped
/// sectors before it.
fn error(layout: &Layout, sample: &Sample, slips: u64, phase: Angle) -> f64 {
    let lba = Lba::new(sample.last + slips);
    let sectors = u64::from(layout.sectors_per_track(layout.track_of(lba)));
    sample
        .angle
        .signed_turns_from(layout.spot(lba).angle + Angle::from_fraction(1, sectors) + phase)
}

/// The cheapest number of slips for each sample, in steps of `grain`, and their mean cost.
fn cheapest(
    layout: &Layout,
    samples: &[&Sample],
    phase: Angle,
    max_slips: u64,
    grain: u64,
) -> (f64, Vec<u64>) {
    let states = (max_slips / grain) as usize + 1;
    let mut cost = vec![0.0; states];
    let mut came_from = vec![0_u32; states * samples.len()];
    for (number, sample) in samples.iter().enumerate() {
        let (mut min_cost, mut min_at) = (f64::INFINITY, 0);
        for state in 0..states {
            if cost[state] < min_cost {
                (min_cost, min_at) = (cost[state], state);
            }
            let jumps = min_cost + NEW_RUN < cost[state];
            came_from[number * states + state] = if jumps { min_at } else { state } as u32;
            let turns = error(layout, sample, state as u64 * grain, phase);
            let off = if turns < 0.0 { -turns / EARLY } else { turns / LATE };
            cost[state] = if jumps { min_cost + NEW_RUN } else { cost[state] } + off.min(MAX_COST);
        }
    }
    let mut state = (0..states).min_by(|a, b| cost[*a].total_cmp(&cost[*b])).unwrap_or(0);
    let mean = cost[state] / samples.len() as f64;
    let mut slips = vec![0; samples.len()];
    for number in (0..samples.len()).rev() {
        slips[number] = state as u64 * grain;
        state = came_from[number * states + state] as usize;
    }
    (mean, slips)
}

fn print_zones(layout: &Layout, samples: &[&Sample], slips: &[u64]) {
    let mut rows: Vec<(u64, u64)> = slips
        .first()
        .filter(|first| **first > 0)
        .map(|first| (samples[0].last / 2, *first))
        .into_iter()
        .collect();
    for number in 1..samples.len() {
        let (before, now) = (slips[number - 1], slips[number]);
        if now > before {
            rows.push((
                (samples[number - 1].last + samples[number].last) / 2 + before,
                now - before,
            ));
        }
    }
    for (number, zone) in layout.zones().enumerate() {
        let start = zone.extent.start.get();
        let within =
            rows.iter().filter(|(at, _)| (start..start + zone.extent.len.get()).contains(at));
        let list: Vec<String> =
            within.clone().map(|(at, count)| format!("[{}, {count}]", at - start)).collect();
        println!(
            "zone {number}: {} slipped: slips = [{}]",
            within.map(|(_, count)| count).sum::<u64>(),
            list.join(", ")
        );
    }
}
