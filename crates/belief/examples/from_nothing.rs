//! The progress of a compact map that learns simulated drives without a profile: the known share,
//! the wrong share of that, and the share of right predictions.
//!
//! `cargo run --release -p headtime-belief --example from_nothing [REQUESTS] [FIRST_SEED-LAST_SEED]
//! [DRIVE ...]` reads 4 KiB anywhere, one at a time, and prints a line for each drive, seed and
//! power of two of requests; the same figures on every machine. *Known*: addresses with a known
//! angle. *Wrong*: known angles that are more than a twentieth of a turn off (by the truth of the
//! simulated drive, which the map never sees). *Right*: predictions within 5 % of the response
//! time, of the last quarter of the requests, without those within 100 us of just missing their
//! sector.

use headtime_belief::DriveModel;
use headtime_belief::compact::CompactSettings;
use headtime_belief::matrix::MappedDrive;
use headtime_mechanics::catalog;

#[path = "../tests/common/unit.rs"]
mod unit;

use unit::Unit;

const DRIVES: [&str; 4] =
    ["nearline-20tb@nocache", "cheetah10k7@papers", "atlas10k", "cheetah15k5"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let requests: u64 = arguments.next().map_or(Ok(65_536), |text| text.parse())?;
    let seeds = arguments.next().unwrap_or_else(|| "1-2".to_owned());
    let (first, last) = seeds.split_once('-').unwrap_or((&seeds, &seeds));
    let named: Vec<String> = arguments.collect();
    let drives = if named.is_empty() { DRIVES.map(str::to_owned).to_vec() } else { named };
    println!(
        "{:<26} {:>5} {:>8} {:>7} {:>8} {:>8} {:>8}",
        "drive", "seed", "requests", "segments", "known %", "wrong %", "right %"
    );
    for drive in &drives {
        for seed in first.parse::<u64>()?..=last.parse()? {
            one(drive, seed, requests)?;
        }
    }
    Ok(())
}

fn one(drive: &str, seed: u64, requests: u64) -> Result<(), Box<dyn std::error::Error>> {
    let profile = catalog::load(drive)?;
    let mapped = MappedDrive {
        model: profile.model.clone(),
        capacity: profile.capacity(),
        sector: profile.sector_size()?,
    };
    let mut belief = DriveModel::mapped_from_nothing(
        mapped,
        profile.rotation_period()?,
        CompactSettings::default(),
    )?;
    let mut unit = Unit::draw(&profile, seed);
    let (mut right, mut away, mut next) = (0_u64, 0_u64, 1_024);
    let (mut searched, mut most, mut searching) = (0_u64, 0_u64, 0_u64);
    for number in 0..requests {
        let outcome = unit.read_anywhere(&mut belief);
        searched += belief.searched();
        most = most.max(belief.searched());
        searching += u64::from(belief.searched() > 0);
        if number >= next - next / 4 && !outcome.at_the_edge {
            away += 1;
            right += u64::from(outcome.right);
        }
        if number + 1 == next {
            let (known, wrong) = unit::known_and_wrong(&belief, unit.truth(), seed);
            let right_percent = 100.0 * right as f64 / away.max(1) as f64;
            println!(
                "{drive:<26} {seed:>5} {next:>8} {:>7} {known:>8.1} {wrong:>8.1} \
                    {right_percent:>8.1}",
                belief.map().expect("the model has a map").regions()
            );
            (right, away, next) = (0, 0, next * 2);
        }
    }
    let (mean, share) = (searched / searching.max(1), 100.0 * searching as f64 / requests as f64);
    println!(
        "{drive:<26} {seed:>5} searched after {share:.1} % of the requests, {mean} operations on \
            average and {most} at most"
    );
    Ok(())
}
