//! `headtime set`: changes what may be changed of a running server, all of it or nothing.

use anyhow::anyhow;
use clap::Args;
use headtime_serve::tuner::{SetOne, SetTunables, TunablesChanged};

use crate::commands::control::{ServerChoice, ask};
use headtime_console::Failure;
use headtime_console::output::{print, print_json};

/// Arguments of `headtime set`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Tunables and their new values; either all are changed or none
    #[arg(value_name = "NAME=VALUE", required_unless_present = "reset")]
    pub set: Vec<String>,
    /// Reset a tunable to the configured or default value and forget a stored one; may be repeated
    #[arg(long, value_name = "NAME")]
    pub reset: Vec<String>,
    /// Server to address
    #[command(flatten)]
    pub server: ServerChoice,
    /// Print the changes or the reason for a refusal without changing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Keep the change only until the server ends
    #[arg(long)]
    pub until_restart: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const AFTER_HELP: &str = "\
Example: headtime set policy=g-matrix lookahead_k=6 --drive /dev/disk/by-id/ata-X
         headtime set deadlines=rt=50ms,be=1s --dry-run --control /run/headtime/sdb.control
         headtime set --reset policy --config /etc/headtime/headtime.toml

What was set is remembered across restarts where the server keeps state; what stands in its \
configuration has the last word there. docs/tunables.md tells what each does.";

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) => Ok(SetOne { name: name.to_owned(), value: value.to_owned() }),
        None => Err(Failure::usage(anyhow!(
            "`{text}` has no value; write NAME=VALUE, such as lookahead_k=6"
        ))),
    };
    let tunables = SetTunables {
        set: arguments.set.iter().map(pair).collect::<Result<_, _>>()?,
        reset: arguments.reset.clone(),
        dry_run: arguments.dry_run,
        until_restart: arguments.until_restart,
    };
    let mut client = arguments.server.connect("")?;
    let changed: TunablesChanged = ask(&mut client, "tunables.set", &tunables)?;
    if arguments.json { print_json(&changed) } else { print(&text(&changed)) }
}

fn text(changed: &TunablesChanged) -> String {
    let mut text = String::new();
    let shown =
        |value: &str| if value.is_empty() { "(none)".to_string() } else { value.to_string() };
    for one in &changed.changed {
        let would = if changed.dry_run { "would be " } else { "" };
        let how = match (one.before == one.value, one.remembered) {
            (true, _) => String::new(),
            (false, _) => format!(", was {}", shown(&one.before)),
        };
        let kept = if one.remembered && !changed.dry_run { "; stored" } else { "" };
        text.push_str(&format!("{} {would}{}{how}{kept}\n", one.name, shown(&one.value)));
    }
    changed.notes.iter().for_each(|note| text.push_str(&format!("note: {note}\n")));
    text
}
