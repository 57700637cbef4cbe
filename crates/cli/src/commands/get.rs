//! `headtime get`: what may be changed of a running server, as it is.

use clap::Args;
use headtime_serve::control::{GetTunables, TunablesAnswer};
use headtime_serve::tuner::TunableStatus;

use crate::commands::control::{ServerChoice, ask};
use headtime_console::Failure;
use headtime_console::output::{columns, print, print_json};

/// Arguments of `headtime get`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Names of tunables; for one name only its value is printed [default: all]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Server to address
    #[command(flatten)]
    pub server: ServerChoice,
    /// Print also the accepted values and the meaning of each
    #[arg(long, short, conflicts_with = "json")]
    pub long: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const AFTER_HELP: &str = "\
Example: headtime get --drive /dev/disk/by-id/ata-X
         headtime get lookahead_k --control /run/headtime/sdb.control

docs/tunables.md tells what each does.";

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut client = arguments.server.connect("")?;
    let TunablesAnswer { tunables } =
        ask(&mut client, "tunables.get", &GetTunables { names: arguments.names.clone() })?;
    if arguments.json {
        return print_json(&tunables);
    }
    match &tunables[..] {
        [only] if arguments.names.len() == 1 && !arguments.long => print(&only.value),
        _ => print(&table(&tunables, arguments.long)),
    }
}

/// The lines for people.
pub(crate) fn table(tunables: &[TunableStatus], long: bool) -> String {
    let mut rows = vec![["name", "value", "set by", "default"].map(str::to_string).to_vec()];
    let shown = |text: &str| if text.is_empty() { "-".to_string() } else { text.to_string() };
    for tunable in tunables {
        rows.push(vec![
            tunable.name.clone(),
            shown(&tunable.value),
            tunable.source.clone(),
            shown(&tunable.default),
        ]);
    }
    let table = columns(&rows, &[false; 4]);
    if !long {
        return table;
    }
    let mut lines = table.lines();
    let mut text = lines.next().map(|line| format!("{line}\n")).unwrap_or_default();
    for (line, tunable) in lines.zip(tunables) {
        text.push_str(&format!("{line}\n    {}\n    takes {}\n", tunable.summary, tunable.takes));
    }
    text
}
