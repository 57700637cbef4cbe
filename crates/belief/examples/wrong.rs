//! The wrong predictions of a compact map by cause. The truth of the simulated drive decides; the
//! map never sees it.
//!
//! `cargo run --release -p headtime-belief --example wrong profile|nothing[+each] [REQUESTS]
//! [FIRST_SEED-LAST_SEED] [DRIVE ...]` reads 4 KiB anywhere, one at a time, as `from_nothing` does,
//! and prints the share of wrong predictions by cause. It counts the last quarter of the reads, in
//! per cent of those further than 100 us from just missing their sector. The first cause that
//! applies counts:
//! - *noise*: exact mechanics without the noise would have been wrong too;
//! - *unknown*: the angle is unknown;
//! - *angle*: the angle between the two places is more than a fiftieth of a turn off;
//! - *arm*: the arm time was off by more than the slack. Without a profile the overhead before the
//!   movement counts as arm time;
//! - *phase*: the most likely time is about a turn off, though arm and angles are right;
//! - *hedge*: the most likely time was right, the expected one wrong;
//! - *rest*: nearly always a read across the end of a track that is modelled some sectors off.
//!
//! With `+each` every wrong prediction is printed as well.

use headtime_belief::DriveModel;
use headtime_belief::compact::CompactSettings;
use headtime_belief::matrix::MappedDrive;
use headtime_mechanics::catalog;
use headtime_sched::{Certainty, Op, Positioning};
use headtime_units::{Extent, Instant, Lba, Sectors};

#[path = "../tests/common/unit.rs"]
mod unit;

use unit::Unit;

const DRIVES: [&str; 4] =
    ["nearline-20tb@nocache", "cheetah10k7@papers", "atlas10k", "savvio15k2@nocache"];
const REASONS: [&str; 7] = ["noise", "unknown", "angle", "arm", "phase", "hedge", "rest"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let from = arguments.next().unwrap_or_default();
    let (from_profile, each) = (from.starts_with("profile"), from.ends_with("+each"));
    let requests: u64 = arguments.next().map_or(Ok(65_536), |text| text.parse())?;
    let seeds = arguments.next().unwrap_or_else(|| "1-1".to_owned());
    let (first, last) = seeds.split_once('-').unwrap_or((&seeds, &seeds));
    let named: Vec<String> = arguments.collect();
    let drives = if named.is_empty() { DRIVES.map(str::to_owned).to_vec() } else { named };
    println!(
        "{:<26} {:>5} {:>7} {} arm off us: median, 90 %, 99 %",
        "drive",
        "seed",
        "right",
        REASONS.map(|reason| format!("{reason:>8}")).join("")
    );
    for drive in &drives {
        for seed in first.parse::<u64>()?..=last.parse()? {
            one(drive, seed, requests, from_profile, each)?;
        }
    }
    Ok(())
}

fn one(
    drive: &str,
    seed: u64,
    requests: u64,
    from_profile: bool,
    each: bool,
) -> Result<(), Box<dyn std::error::Error>> {
    let profile = catalog::load(drive)?;
    let mut belief = if from_profile {
        DriveModel::mapped_from_profile(&profile, CompactSettings::default())?
    } else {
        let mapped = MappedDrive {
            model: profile.model.clone(),
            capacity: profile.capacity(),
            sector: profile.sector_size()?,
        };
        DriveModel::mapped_from_nothing(
            mapped,
            profile.rotation_period()?,
            CompactSettings::default(),
        )?
    };
    let mut unit = Unit::draw(&profile, seed);
    let turn = unit.truth().mechanism().period().as_nanos().as_ns() as f64;
    let (mut away, mut right, mut counts, mut arms, mut before) =
        (0_u64, 0_u64, [0_u64; REASONS.len()], Vec::new(), Lba::new(0));
    for number in 0..requests {
        let extent = unit.anywhere(belief.map().expect("the model has a map").capacity());
        let target = belief.target(Op::Read, extent);
        let known = unit
            .head()
            .is_some_and(|head| belief.known(&head, Instant::ORIGIN, &target) == Certainty::Known);
        let arm = belief.map().expect("the model has a map").arm(before, extent.start);
        let came = belief.target(Op::Read, Extent::new(before, Sectors::new(1)));
        let outcome = unit.read(&mut belief, extent);
        let from = std::mem::replace(&mut before, extent.last());
        if number < requests - requests / 4 || outcome.at_the_edge {
            continue;
        }
        away += 1;
        let before_arm = if from_profile { 0.0 } else { outcome.overhead.as_ns() as f64 };
        let arm_off = arm.as_ns() as f64 - outcome.arm.as_ns() as f64 - before_arm;
        arms.push(arm_off.abs());
        if outcome.right {
            right += 1;
            continue;
        }
        let mechanism = unit.truth().mechanism();
        let between = (target.start.angle - came.end.angle).signed_turns_from(
            mechanism.spot(extent.start).angle
                - mechanism.end_spot(Extent::new(from, Sectors::new(1))).angle,
        );
        let (early, late) = (outcome.rotate.as_ns() as f64, turn - outcome.rotate.as_ns() as f64);
        let reason = if !outcome.foreseeable {
            0
        } else if !known {
            1
        } else if between.abs() > 0.02 {
            2
        } else if arm_off > early || -arm_off > late {
            3
        } else if outcome.likely_off_ns.unsigned_abs() as f64 > turn / 2.0 {
            4
        } else if outcome.likely_right {
            5
        } else {
            6
        };
        counts[reason] += 1;
        if each {
            println!(
                "  {:<8} arm {:>6} off {:>6.0} us, slack {:>5.0}/{:>5.0}, angle off {:>6.0} us, \
                    likely off {:>6} us, hedge {:>5} us of {} us",
                REASONS[reason],
                outcome.arm.as_ns() / 1000,
                arm_off / 1e3,
                early / 1e3,
                late / 1e3,
                between * turn / 1e3,
                outcome.likely_off_ns / 1000,
                outcome.hedge_ns / 1000,
                outcome.response.as_ns() / 1000
            );
        }
    }
    arms.sort_by(f64::total_cmp);
    let percent = |count: u64| 100.0 * count as f64 / away.max(1) as f64;
    let at =
        |part: f64| arms.get((arms.len() as f64 * part) as usize).copied().unwrap_or(0.0) / 1e3;
    let reasons = counts.map(|count| format!("{:>8.3}", percent(count))).join("");
    println!(
        "{drive:<26} {seed:>5} {:>7.3} {reasons} {:>10.0} {:>4.0} {:>4.0}",
        percent(right),
        at(0.5),
        at(0.9),
        at(0.99)
    );
    Ok(())
}
