//! `headtime plan`: what applications need, as reservations of a drive's time.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::Args;
use headtime_mechanics::{Direction, DriveProfile, HeadPosition, InterfaceTimes, Mechanism};
use headtime_sched::{DriveCosts, Need, NeedError};
use headtime_serve::volumes::VolumeSpec;
use headtime_units::{Extent, Instant, Nanos, Sectors, Share};
use headtime_workload::file::{NEED_KEYS, NeedsFile, StreamNeed};
use serde::Serialize;

use headtime_console::output::{columns, print, print_json};
use headtime_console::{Failure, drive_model};

/// PlanArguments of `headtime plan`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, after_long_help = long_help())]
pub struct PlanArguments {
    /// Requirements: TOML with a `[[need]]` for each stream of requests
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Drive: a built-in profile, such as nearline-20tb or atlas10k@scsi1, or the path of a profile
    /// file
    #[arg(long, value_name = "PROFILE")]
    pub drive: String,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// The period in which the policies serve each tenant once, where shorter periods would cost it
/// something.
const PERIOD: Nanos = Nanos::from_secs(1);
/// Reservations are rounded up to hundredths of a per cent.
const GRAIN: u32 = 100_000;

#[derive(Serialize)]
struct Answer {
    drive: String,
    needs: Vec<Planned>,
    volumes: Vec<Reservation>,
    reserved_percent: f64,
    left_percent: f64,
}

/// One need, and what it takes.
#[derive(Serialize)]
struct Planned {
    name: String,
    volume: String,
    requests_per_second: f64,
    size_bytes: u64,
    run_requests: u64,
    reads: f64,
    /// Seek, overhead and half a turn of each run.
    run_overhead_ms: f64,
    /// Each request of a run.
    transfer_ms: f64,
    reserve_percent: f64,
}

/// The reservation of one volume or class.
#[derive(Serialize)]
struct Reservation {
    volume: String,
    reserve_percent: f64,
    command: String,
}

/// Plans, and prints what comes of it.
pub fn run(arguments: &PlanArguments) -> Result<(), Failure> {
    let profile = drive_model::load(&arguments.drive)?;
    let name = arguments.file.display().to_string();
    let text = std::fs::read_to_string(&arguments.file)
        .with_context(|| format!("{name} cannot be read"))
        .map_err(Failure::Usage)?;
    let file = NeedsFile::from_toml(&name, &text).map_err(Failure::usage)?;
    let answer = plan(&file, &profile)?;
    if arguments.json { print_json(&answer) } else { print(&answer.text()) }
}

fn plan(file: &NeedsFile, profile: &DriveProfile) -> Result<Answer, Failure> {
    let drive = Drive::of(profile).map_err(Failure::Usage)?;
    let mut needs = Vec::new();
    let mut left = Share::WHOLE.as_billionths();
    let mut mistakes = Vec::new();
    for need in &file.needs {
        let planned =
            drive.planned(need).and_then(|(planned, reserve)| match left.checked_sub(reserve) {
                Some(rest) => {
                    left = rest;
                    Ok(planned)
                }
                None => Err(format!(
                    "it takes {:.2} % of disk time, but {:.2} % are left after the others; ask \
                    for fewer requests or longer runs, or give it another drive",
                    percent(reserve),
                    percent(left)
                )),
            });
        match planned {
            Ok(planned) => needs.push(planned),
            Err(mistake) => {
                mistakes.push(format!("{}:{}: need {}: {mistake}", file.name, need.line, need.name))
            }
        }
    }
    if !mistakes.is_empty() {
        return Err(Failure::Usage(anyhow!(mistakes.join("\n"))));
    }
    Ok(Answer {
        drive: profile.name.clone(),
        volumes: by_volume(&needs),
        reserved_percent: percent(Share::WHOLE.as_billionths() - left),
        left_percent: percent(left),
        needs,
    })
}

/// The costs of requests by a drive's profile.
struct Drive<'a> {
    profile: &'a DriveProfile,
    mechanism: Mechanism,
    interface: InterfaceTimes,
    mean_arm: Nanos,
    /// Nanoseconds for each sector of a long transfer where the drive is slowest, switches of
    /// tracks included.
    sector_ns: f64,
}

impl<'a> Drive<'a> {
    fn of(profile: &'a DriveProfile) -> anyhow::Result<Self> {
        let mechanism = Mechanism::nominal(profile)?;
        let sector_ns = slowest_sector_ns(&mechanism);
        Ok(Self {
            profile,
            interface: InterfaceTimes::from_profile(profile)?,
            mean_arm: mechanism.mean_arm_time(),
            sector_ns,
            mechanism,
        })
    }

    /// A need with its reservation, in billionths, or what is wrong with it.
    fn planned(&self, need: &StreamNeed) -> Result<(Planned, u32), String> {
        check_volume(&need.volume)?;
        let capacity =
            u128::from(self.profile.capacity().get()) * u128::from(self.profile.sector_bytes);
        if u128::from(need.size_bytes) * u128::from(need.run) > capacity && need.run > 1
            || u128::from(need.size_bytes) > capacity
        {
            return Err(format!(
                "a run of {} requests of {} bytes is longer than the drive, which has {capacity}; \
                    shorten it",
                need.run, need.size_bytes
            ));
        }
        let costs = self.costs(need);
        let need_of_drive = Need { requests_per_second: need.rate, run_requests: need.run };
        let share = need_of_drive
            .reservation_per_period(&costs, PERIOD)
            .map_err(|error: NeedError| error.to_string())?;
        let reserve =
            share.as_billionths().next_multiple_of(GRAIN).min(Share::WHOLE.as_billionths());
        let planned = Planned {
            name: need.name.clone(),
            volume: need.volume.clone(),
            requests_per_second: need.rate,
            size_bytes: need.size_bytes,
            run_requests: need.run,
            reads: need.reads,
            run_overhead_ms: (costs.seek + costs.revolution / 2).as_ms_f64(),
            transfer_ms: costs.transfer.as_ms_f64(),
            reserve_percent: percent(reserve),
        };
        Ok((planned, reserve))
    }

    fn costs(&self, need: &StreamNeed) -> DriveCosts {
        let mixed = |reads: Nanos, writes: Nanos| {
            reads.as_ns() as f64 * need.reads + writes.as_ns() as f64 * (1.0 - need.reads)
        };
        let nanos = |ns: f64| Nanos::from_ns(ns.round() as u64);
        let command = |op| {
            self.interface.command_overhead(op, Some(op)) + self.interface.completion_overhead()
        };
        let overhead = nanos(mixed(command(Direction::Read), command(Direction::Write)));
        let sectors = Sectors::new(need.size_bytes.div_ceil(u64::from(self.profile.sector_bytes)));
        let revolution = self.mechanism.period().as_nanos();
        // The next sectors of a run are in the cache if the drive reads ahead far enough, or if it
        // caches writes. Otherwise they have just passed the head.
        let cache = self.profile.cache.filter(|cache| cache.segments > 0);
        let ahead = cache.filter(|cache| {
            !cache.whole_track && u64::from(cache.read_ahead_sectors) >= sectors.get()
        });
        let hit = |us: f64| {
            Nanos::from_ms_f64(us / 1e3).unwrap_or(Nanos::ZERO)
                + self.interface.completion_overhead()
        };
        let (read, read_missed) = ahead.map_or((command(Direction::Read), revolution), |cache| {
            (hit(cache.read_hit_us), Nanos::ZERO)
        });
        let taken_in = cache.filter(|cache| cache.write_back);
        let (write, write_missed) = taken_in
            .map_or((command(Direction::Write), revolution), |cache| {
                (hit(cache.write_hit_us), Nanos::ZERO)
            });
        let missed =
            if need.run > 1 { nanos(mixed(read_missed, write_missed)) } else { Nanos::ZERO };
        let medium = nanos(sectors.get() as f64 * self.sector_ns);
        DriveCosts {
            seek: self.mean_arm
                + nanos(mixed(Nanos::ZERO, self.mechanism.write_settle()))
                + overhead,
            revolution,
            transfer: medium.max(self.interface.bus_time(sectors) + nanos(mixed(read, write)))
                + missed,
            longest_run: Nanos::MAX,
        }
    }
}

/// The mean time of a sector in a long transfer, with track switches, in the zone with the fewest
/// sectors per track.
fn slowest_sector_ns(mechanism: &Mechanism) -> f64 {
    const TRACKS: u64 = 64;
    let layout = mechanism.layout();
    let slowest = layout
        .zones()
        .filter(|zone| !zone.extent.len.is_zero())
        .min_by_key(|zone| zone.sectors_per_track);
    let zone = slowest.expect("a drive has sectors");
    let sectors = zone.extent.len.get().min(u64::from(zone.sectors_per_track) * TRACKS);
    let extent = Extent::new(zone.extent.start, Sectors::new(sectors));
    let access = mechanism.access(
        HeadPosition::default(),
        Instant::ORIGIN,
        Direction::Read,
        extent,
        Instant::ORIGIN,
    );
    access.finish.saturating_since(access.first_sector).as_ns() as f64 / (sectors.max(2) - 1) as f64
}

/// Checks the name of a volume or class.
fn check_volume(name: &str) -> Result<(), String> {
    let (volume, class) =
        name.split_once('@').map_or((name, None), |(volume, class)| (volume, Some(class)));
    if class.is_some_and(|class| !matches!(class, "realtime" | "bulk")) {
        return Err(format!(
            "volume {name}: a volume has the classes realtime and bulk; write {volume}@realtime or \
                {volume}@bulk"
        ));
    }
    VolumeSpec::default().set("name", volume).map_err(|error| error.to_string())
}

/// The reservation of each volume, in the order of the file.
fn by_volume(needs: &[Planned]) -> Vec<Reservation> {
    let mut volumes: Vec<Reservation> = Vec::new();
    for need in needs {
        match volumes.iter_mut().find(|volume| volume.volume == need.volume) {
            Some(volume) => volume.reserve_percent += need.reserve_percent,
            None => volumes.push(Reservation {
                volume: need.volume.clone(),
                reserve_percent: need.reserve_percent,
                command: String::new(),
            }),
        }
    }
    for volume in &mut volumes {
        // Sums of hundredths are hundredths.
        volume.reserve_percent = (volume.reserve_percent * 100.0).round() / 100.0;
        volume.command =
            format!("headtime volume set {} reserve={}%", volume.volume, volume.reserve_percent);
    }
    volumes
}

fn percent(billionths: u32) -> f64 {
    f64::from(billionths / GRAIN) / 100.0
}

impl Answer {
    fn text(&self) -> String {
        let mut rows = vec![
            ["NEED", "VOLUME", "REQUESTS/s", "SIZE", "RUN", "ms/RUN", "ms/REQUEST", "RESERVE"]
                .map(str::to_owned)
                .to_vec(),
        ];
        rows.extend(self.needs.iter().map(|need| {
            vec![
                need.name.clone(),
                need.volume.clone(),
                need.requests_per_second.to_string(),
                need.size_bytes.to_string(),
                need.run_requests.to_string(),
                format!("{:.2}", need.run_overhead_ms),
                format!("{:.3}", need.transfer_ms),
                format!("{:.2} %", need.reserve_percent),
            ]
        }));
        let table = columns(&rows, &[false, false, true, true, true, true, true, true]);
        let mut text = format!(
            "{table}\n{:.2} % of the time of {} reserved, {:.2} % left\n\n",
            self.reserved_percent, self.drive, self.left_percent
        );
        for volume in &self.volumes {
            let _ = writeln!(text, "{}", volume.command);
        }
        text
    }
}

const AFTER_HELP: &str = "\
Example: headtime plan docs/need.toml --drive nearline-20tb

ms/RUN is what getting to each run costs (mean seek, overhead, half a turn), ms/REQUEST what each \
of its requests does. The commands want --drive, --config or --control besides, as \
every `headtime volume`; add --dry-run to see whether so much is free. docs/shares.md says how it \
is computed.";

fn long_help() -> String {
    let keys = NEED_KEYS.iter().map(|key| {
        format!(
            "  {} = {}\n      {} [default: {}]\n",
            key.name, key.takes, key.summary, key.default
        )
    });
    format!("{AFTER_HELP}\n\nKeys of a [[need]]:\n{}", keys.collect::<String>())
}
