//! `headtime emulate`: an emulated drive alone, as an NBD drive with nothing in front.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::Args;
use headtime_io::{ArrayLocator, EmulatedLocator, EmulationSnapshot, Locator, ProfileSource};
use headtime_mechanics::NoiseLevel;
use headtime_serve::config::{Config, Flags};
use headtime_serve::{Server, serve_alone};

use crate::commands::serve::{DRAIN, print_exports, start_failure};
use headtime_console::Failure;
use headtime_console::arguments::noise_level;
use headtime_console::figures::show_percent;
use headtime_console::logs::{self, Level};
use headtime_console::stop::Stop;

/// Arguments of `headtime emulate`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Drive: a profile's name, NAME@SETUP, the path of a profile file,
    /// emulated:PROFILE?backing=FILE, or array:DRIVE,DRIVE,… of such drives
    pub profile: String,
    /// File with the drive's bytes; created if it is missing
    #[arg(long, value_name = "FILE")]
    pub backing: Option<PathBuf>,
    /// Address to listen on: unix:PATH or tcp:HOST:PORT; may be repeated
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub listen: Vec<String>,
    /// Seed of the emulated instance [default: the one stored beside the file, 0 for a new file]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Level of noise: how far the drive differs from its profile and varies [default: that of the
    /// locator, else typical]
    #[arg(long, value_name = "LEVEL", value_parser = noise_level())]
    pub noise: Option<NoiseLevel>,
    /// Maximum commands at the drive [default: the depth of its own queue]
    #[arg(long, value_name = "N")]
    pub outstanding: Option<String>,
    /// Print JSON: one object when clients may connect, one at the end
    #[arg(long)]
    pub json: bool,
    /// Log level on standard error
    #[arg(long, value_enum, default_value_t = Level::Warn)]
    pub log: Level,
}

/// Serves it until SIGTERM or SIGINT.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    logs::start(arguments.log);
    let stop = Stop::on_signals()?;
    let server = start(arguments)?;
    print_exports(&server, arguments.json)?;
    stop.wait_for_it();
    let drained = server.drain(DRAIN);
    if let Some(emulation) = &drained.drive.emulation {
        tell(emulation, arguments.json)?;
    }
    crate::commands::serve::outcome(&drained)
}

fn start(arguments: &Arguments) -> Result<Server, Failure> {
    let drive = match arguments.profile.starts_with("array:") {
        true => Locator::Array(array(arguments)?),
        false => Locator::Emulated(emulated(arguments)?),
    };
    let listen = arguments.listen.iter().map(|address| ("listen", address));
    let outstanding = arguments.outstanding.iter().map(|count| ("outstanding", count));
    let keys = outstanding.chain(listen).map(|(key, text)| (key, text.clone()));
    let flags = Flags { keys: keys.collect(), ..Flags::default() };
    let mut config = Config::from_flags(&flags).map_err(Failure::usage)?;
    config.drive = Some(drive);
    serve_alone(&config).map_err(start_failure)
}

/// An array of emulated drives.
fn array(arguments: &Arguments) -> Result<ArrayLocator, Failure> {
    let Locator::Array(mut array) = Locator::parse(&arguments.profile).map_err(Failure::usage)?
    else {
        unreachable!("an array is read from a text that begins with array:")
    };
    if arguments.backing.is_some() || arguments.seed.is_some() {
        return Err(Failure::Usage(anyhow!(
            "{array}: --backing and --seed are of one drive; write backing=FILE and seed=N in each \
                member"
        )));
    }
    for member in &mut array.members {
        let Locator::Emulated(emulated) = member else {
            return Err(Failure::Usage(anyhow!(
                "member {member} is not an emulated drive; write emulated:PROFILE?backing=FILE, or \
                    use `headtime serve`"
            )));
        };
        emulated.noise = arguments.noise.unwrap_or(emulated.noise);
    }
    Ok(array)
}

/// The drive, by either way of naming it.
fn emulated(arguments: &Arguments) -> Result<EmulatedLocator, Failure> {
    let named = arguments
        .profile
        .strip_prefix("emulated:")
        .map(|rest| rest.split_once('?').map_or(rest, |(name, _)| name));
    // Loaded here as well so that an unknown name ends with exit code 2, as in other commands.
    headtime_console::drive_model::load(named.unwrap_or(&arguments.profile))?;
    if named.is_some() {
        if arguments.backing.is_some() {
            return Err(Failure::Usage(anyhow!(
                "{} names its file itself; leave --backing out",
                arguments.profile
            )));
        }
        return match Locator::parse(&arguments.profile).map_err(Failure::usage)? {
            Locator::Emulated(named) => Ok(EmulatedLocator {
                seed: arguments.seed.or(named.seed),
                noise: arguments.noise.unwrap_or(named.noise),
                ..named
            }),
            other => Err(Failure::Usage(anyhow!(
                "{other} is not an emulated drive; write emulated:PROFILE?backing=FILE"
            ))),
        };
    }
    let Some(backing) = arguments.backing.clone() else {
        return Err(Failure::Usage(anyhow!(
            "which file has the drive's bytes? Add --backing FILE, or name the drive as elsewhere: \
                'emulated:{}?backing=FILE'",
            arguments.profile
        )));
    };
    let (profile, setup) = arguments
        .profile
        .rsplit_once('@')
        .map_or((arguments.profile.as_str(), None), |(profile, setup)| (profile, Some(setup)));
    Ok(EmulatedLocator {
        profile: ProfileSource::of(profile),
        setup: setup.map(str::to_string),
        backing,
        seed: arguments.seed,
        noise: arguments.noise.unwrap_or_default(),
        standby: None,
        smr: None,
    })
}

/// Prints the lateness of the emulation, which bounds the error of its times.
fn tell(emulation: &EmulationSnapshot, json: bool) -> Result<(), Failure> {
    let late = &emulation.lateness;
    if json {
        let us = |time: headtime_units::Nanos| time.as_us_f64();
        let disk_time = serde_json::to_value(emulation.disk_time)
            .context("disk time cannot be written as JSON")?;
        return headtime_console::output::print_json(&serde_json::json!({
            "event": "ended",
            "completions": late.completions,
            "lateness_us": {
                "p50": us(late.p50), "p99": us(late.p99), "p999": us(late.p999), "max": us(late.max)
            },
            "bytes_late": emulation.bytes_late,
            "bytes_late_max_us": us(emulation.bytes_late_max),
            "disk_time": disk_time,
        }));
    }
    let spent = &emulation.disk_time;
    let all = spent.total().as_secs_f64().max(f64::MIN_POSITIVE);
    let share = |part: headtime_units::Nanos| show_percent(part.as_secs_f64() / all);
    headtime_console::output::print(&format!(
        "{} completions, later than the model by p50 {}, p99 {}, p99.9 {}, at most {}\n\
         {} completions waited for the backing file, at most {}\n\
         disk time: seek {}, rotate {}, transfer {}, overhead {}, idle {}",
        late.completions,
        late.p50,
        late.p99,
        late.p999,
        late.max,
        emulation.bytes_late,
        emulation.bytes_late_max,
        share(spent.seek),
        share(spent.rotate),
        share(spent.transfer),
        share(spent.overhead),
        share(spent.idle),
    ))
}

const AFTER_HELP: &str = "\
Every request goes to the drive's own queue at once. The bytes are stored in sparse files and \
reused the next time. The lateness of the emulation is printed at the end.

Example:
  headtime emulate nearline-20tb --backing /tmp/drive.img --listen unix:/tmp/drive.sock
  nbdinfo 'nbd+unix:///?socket=/tmp/drive.sock'";
