//! `headtime status`: how a running server is doing.

use clap::Args;
use headtime_serve::status::{ModelStatus, OpStatus, ServerStatus};
use headtime_units::ByteSize;

use crate::commands::control::{ServerChoice, ask};
use crate::commands::get;
use crate::commands::volume::{extents_text, relocation_text};
use headtime_console::Failure;
use headtime_console::characterization;
use headtime_console::figures::show_bytes;
use headtime_console::map;
use headtime_console::output::{columns, print, print_json};

/// Arguments of `headtime status`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// The server
    #[command(flatten)]
    pub server: ServerChoice,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut client = arguments.server.connect("")?;
    let status: ServerStatus = ask(&mut client, "status", &serde_json::json!({}))?;
    if arguments.json { print_json(&status) } else { print(&text(&status)) }
}

fn text(status: &ServerStatus) -> String {
    let drive = &status.drive;
    let bytes = drive.capacity_sectors.saturating_mul(u64::from(drive.sector_bytes));
    // A backend on the network describes itself by the locator.
    let backend = drive.backend.replace(&drive.locator, "").trim().to_owned();
    let backend = Some(backend).filter(|backend| !backend.is_empty());
    let mut text = format!(
        "drive {}: {}, {} in sectors of {} bytes{}\n",
        drive.locator,
        drive.model,
        show_bytes(bytes),
        drive.sector_bytes,
        backend.map_or_else(String::new, |backend| format!(", {backend}"))
    );
    text.push_str(&format!(
        "up {:.0} s, {} queued, {} at the drive, {} connections, {} errors\n",
        status.uptime_seconds,
        drive.queued,
        drive.outstanding,
        status.connections,
        drive.errors.values().sum::<u64>()
    ));
    if drive.active_policy != drive.policy {
        text.push_str(&format!(
            "policy {}: {} decides, after {} switches (headtime explain --switches)\n",
            drive.policy,
            drive.active_policy,
            drive.switches.len()
        ));
    }
    if drive.slow_commands > 0 {
        text.push_str(&format!(
            "{} commands are without an answer, {} of them given up\n",
            drive.slow_commands, drive.given_up_commands
        ));
    }
    if drive.waits.begun > 0 {
        text.push_str(&format!(
            "waited {} times for a request expected soon, {:.1} s in all; it came {} times\n",
            drive.waits.begun, drive.waits.seconds, drive.waits.came
        ));
    }
    if let Some(link) = &drive.link {
        text.push_str(&format!("connection: {link}\n"));
    }
    status.warnings.iter().for_each(|warning| text.push_str(&format!("warning: {warning}\n")));
    text.push_str(&model(&status.model));
    text.push_str(&format!("\n{}", get::table(&status.tunables, false)));
    text.push_str(&format!("\n{}", volumes(status)));
    let volumes = status.volumes.iter().filter(|export| !export.name.contains('@'));
    volumes.for_each(|of| text.push_str(&extents_text(&of.name, &of.extents)));
    status.relocation.iter().for_each(|of| text.push_str(&relocation_text(of)));
    for scan in &status.scans {
        text.push_str(&format!("scan: {}\n", headtime_console::scans::line(scan)));
    }
    text.extend(status.characterization.as_ref().map(characterization::text));
    text
}

fn model(model: &ModelStatus) -> String {
    let mut text = format!("drive model: {}, learned from {} completions", model.by, model.samples);
    if let Some(error) = model.error_rms_us.filter(|_| model.by != "distance") {
        text.push_str(&format!(", error {error:.0} us rms"));
    }
    if model.mistrusted {
        text.push_str(", not trusted at the moment");
    }
    text.push('\n');
    if let Some(map) = &model.map {
        text.push_str(&map::figures_text(map));
    }
    if let Some(kept) = &model.kept {
        text.push_str(&map::kept_text(kept));
    }
    text
}

fn volumes(status: &ServerStatus) -> String {
    let head = [
        "volume",
        "size",
        "deadline",
        "priority",
        "reads",
        "ms",
        "writes",
        "ms",
        "in flight",
        "missed",
        "disk time s",
        "used",
        "last min",
        "reserve",
        "limit",
    ];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    let mean =
        |op: &OpStatus| op.response_ms_mean.map_or("-".to_string(), |mean| format!("{mean:.2}"));
    let share = |of: Option<f64>| of.map_or("-".to_string(), |percent| format!("{percent} %"));
    for volume in &status.volumes {
        rows.push(vec![
            volume.name.clone(),
            ByteSize::new(volume.size_bytes).to_string(),
            volume.deadline_ms.map_or("-".to_string(), |deadline| format!("{deadline} ms")),
            volume.priority.clone().unwrap_or_else(|| "-".to_string()),
            volume.reads.requests.to_string(),
            mean(&volume.reads),
            volume.writes.requests.to_string(),
            mean(&volume.writes),
            volume.in_flight.to_string(),
            format!("{} of {}", volume.deadline_misses, volume.deadline_requests),
            format!("{:.1}", volume.disk_time_ms / 1e3),
            format!("{:.1} %", volume.disk_time_ms / 10.0 / status.uptime_seconds.max(1e-3)),
            volume.recent_percent.map_or("-".to_string(), |percent| format!("{percent:.1} %")),
            share((volume.reserve_percent > 0.0).then_some(volume.reserve_percent)),
            share(volume.limit_percent),
        ]);
    }
    let mut right = [true; 15];
    (right[0], right[3]) = (false, false);
    columns(&rows, &right)
}

const AFTER_HELP: &str = "\
`used` is the share of the drive's time that the volume got since the server started, `last min` \
that of the last minute, beside what it has reserved and its limit.
Example: headtime status --drive /dev/disk/by-id/ata-X --json";
