//! `headtime volume relocate`: starts a relocation, waits for its end, and shows its progress on
//! standard error: a bar on a terminal, a line for each tenth and each change elsewhere.

use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use headtime_console::progress::ProgressDisplay;
use headtime_console::{Failure, note};
use headtime_serve::control::{
    CancelRelocation, ControlClient, ControlError, RelocateArguments, VolumeAnswer,
};
use headtime_serve::volumes::{RelocationState, RelocationStatus};
use headtime_units::{ByteSize, Share, parse_share};

use super::{answered, of, send};
use crate::commands::control::{ask, refused};
use crate::commands::scan::ServerArguments;

/// The sectors to be moved.
#[derive(Debug, Args)]
pub struct Relocate {
    /// Volume
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Destination: `start` (the first free extent that is long enough), `end` (the end of the
    /// last one), `largest-gap`, or an address in bytes of the drive, such as 100GiB
    #[arg(long, value_name = "WHERE", required_unless_present_any = ["cancel", "wait"])]
    pub to: Option<String>,
    /// First byte of the volume to move [default: 0]
    #[arg(long, value_name = "OFFSET", requires = "to")]
    pub from: Option<String>,
    /// Number of bytes to move [default: all up to the end of the volume]
    #[arg(long, value_name = "SIZE", requires = "to")]
    pub size: Option<String>,
    /// Maximum increase of the clients' mean response time by all background work while the
    /// relocation runs, such as 1% [default: that of the drive]
    #[arg(long, value_name = "SHARE", requires = "to")]
    pub max_impact: Option<String>,
    /// Wait until the relocation is over, without --to for the one that runs; the exit code is 1
    /// unless it is complete
    #[arg(long, conflicts_with_all = ["cancel", "dry_run"])]
    pub wait: bool,
    /// End the relocation that runs; the volume keeps its earlier sectors
    #[arg(long, conflicts_with = "to")]
    pub cancel: bool,
    /// Cancel the scans of the volume when its sectors change, instead of waiting for their end
    #[arg(long, requires = "to")]
    pub force: bool,
    /// Print the result without changing anything
    #[arg(long, requires = "to")]
    pub dry_run: bool,
    /// Server to address
    #[command(flatten)]
    pub server: ServerArguments,
}

/// Starts, cancels or awaits a relocation.
pub(super) fn run(relocate: &Relocate) -> Result<(), Failure> {
    let Relocate { name, to, from, size, max_impact, wait, cancel, force, dry_run, server } =
        relocate;
    if *cancel {
        let order = CancelRelocation { name: name.clone() };
        return send(server, "volume.relocate_cancel", &order);
    }
    let max_impact = max_impact.as_deref().map(parse_share).transpose();
    let max_impact =
        max_impact.map_err(|error| Failure::usage(anyhow!("--max-impact: {error}")))?;
    let order = to.clone().map(|to| RelocateArguments {
        name: name.clone(),
        from: from.clone(),
        size: size.clone(),
        to,
        max_impact: max_impact.map(Share::as_fraction),
        force: *force,
        dry_run: *dry_run,
    });
    let mut client = server.choice.connect("")?;
    if let Some(order) = order {
        let answer: VolumeAnswer = ask(&mut client, "volume.relocate", &order)?;
        if !wait {
            return answered(server, &answer);
        }
        if !server.json {
            answer.notes.iter().for_each(|note| note!("note: {note}"));
        }
    }
    await_end(&mut client, name, server)
}

/// Waits until the last relocation of a volume is over, and prints the result.
fn await_end(
    client: &mut ControlClient,
    name: &str,
    server: &ServerArguments,
) -> Result<(), Failure> {
    let mut progress = ProgressDisplay::new(server.json);
    let (answer, status) = loop {
        let answer = client.volume("volume.show", &of(name)).map_err(|error| match error {
            ControlError::ErrorReply(_) => refused(error),
            error => Failure::Failed(anyhow!(
                "the server has ended before {name} was relocated: {error}; if it keeps state, the \
                    relocation continues when it starts again"
            )),
        })?;
        let last = answer.volumes.first().and_then(|volume| volume.relocation.clone());
        let Some(status) = last else {
            return Err(Failure::usage(anyhow!(
                "volume {name} is not being relocated, so there is nothing to wait for; start a \
                    relocation with --to"
            )));
        };
        if status.state.is_over() {
            break (answer, status);
        }
        progress.show(
            status.share_done(),
            (status.state, status.reason.clone(), status.pass),
            || (format!("relocation of {}", status.volume), state_text(&status)),
            || relocation_text(&status).trim_end().to_owned(),
        );
        std::thread::sleep(POLL_INTERVAL);
    };
    progress.end();
    answered(server, &answer)?;
    match status.state {
        RelocationState::Failed => {
            Err(Failure::Failed(anyhow!("volume {name} stays where it is: {}", status.reason)))
        }
        RelocationState::Cancelled => {
            Err(Failure::Failed(anyhow!("the relocation of volume {name} was cancelled")))
        }
        _ => Ok(()),
    }
}

/// A line about a relocation.
pub(crate) fn relocation_text(of: &RelocationStatus) -> String {
    let to = format!("LBA {}", of.to_sector);
    let what = ByteSize::new(of.bytes);
    format!("relocation of {}: {what} to {to}: {}\n", of.volume, state_text(of))
}

fn state_text(of: &RelocationStatus) -> String {
    let mut text = of.state.name().to_owned();
    match of.state {
        RelocationState::Copying => {
            let [done, all] = [of.pass_bytes_done, of.pass_bytes].map(ByteSize::new);
            text.push_str(&format!(
                " {done} of {all} in pass {}, {:.0} s after its start",
                of.pass, of.seconds
            ));
        }
        RelocationState::Complete => {
            let held = of.held_seconds.unwrap_or_default();
            text.push_str(&format!(" after {:.1} s, writes were held {held:.3} s", of.seconds));
        }
        _ => {}
    }
    if !of.reason.is_empty() {
        text.push_str(&format!(": {}", of.reason));
    }
    text
}

/// The interval at which the server is asked, as for scans.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
