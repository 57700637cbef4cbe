//! `headtime workload`: lists the workloads that ship, and shows any as TOML.

use clap::{Args, Subcommand};
use headtime_workload::{BUILTINS, DRAWN};
use serde::Serialize;

use crate::workloads::WorkloadChoice;
use headtime_console::Failure;
use headtime_console::output::{columns, print, print_json};

/// WorkloadArguments of `headtime workload`.
#[derive(Debug, Args)]
pub struct WorkloadArguments {
    /// Action
    #[command(subcommand)]
    pub verb: WorkloadVerb,
}

/// The actions on a workload.
#[derive(Debug, Subcommand)]
pub enum WorkloadVerb {
    /// List the built-in workloads
    List(ListArguments),
    /// Check a workload and show it as TOML: a built-in or drawn one, a file of streams, or a fio
    /// job file
    Show(WorkloadShowArguments),
}

/// WorkloadArguments of `headtime workload list`.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// Print a JSON array instead of a table
    #[arg(long)]
    pub json: bool,
}

/// WorkloadArguments of `headtime workload show`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: headtime workload show jobs.fio > mine.toml && headtime sim --workload \
        mine.toml"
)]
pub struct WorkloadShowArguments {
    /// Workload, as in `headtime sim --workload`
    #[arg(value_name = "NAME|FILE")]
    pub workload: String,
}

/// A workload that ships.
#[derive(Debug, Serialize)]
pub struct ListedWorkload {
    name: &'static str,
    description: String,
    streams: Vec<String>,
    takes_depth: bool,
}

/// Does it.
pub fn run(arguments: &WorkloadArguments) -> Result<(), Failure> {
    match &arguments.verb {
        WorkloadVerb::List(arguments) => list(arguments),
        WorkloadVerb::Show(arguments) => show(arguments),
    }
}

/// The workloads that ship.
pub fn listed() -> Vec<ListedWorkload> {
    let listed = BUILTINS.iter().map(|builtin| {
        let file = builtin.load().expect("the workloads that ship are read by a test");
        let streams = file.streams.iter().map(|stream| stream.name.clone()).collect();
        ListedWorkload {
            name: builtin.name,
            description: file.description.clone().unwrap_or_default(),
            streams,
            takes_depth: file.takes_depth(),
        }
    });
    listed.collect()
}

fn list(arguments: &ListArguments) -> Result<(), Failure> {
    let listed = listed();
    if arguments.json {
        return print_json(&listed);
    }
    let rows: Vec<Vec<String>> = listed
        .iter()
        .map(|one| vec![one.name.to_string(), one.streams.join(", "), one.description.clone()])
        .collect();
    let rows =
        [vec![["name", "streams", "what it is"].map(str::to_string).to_vec()], rows].concat();
    print(&format!(
        "{}\nKeys can be laid over: random:size=64KiB,reads=0.7 or vm-mix:copy.size=1MiB. {DRAWN} \
            is a mixture drawn at random. See docs/workloads.md.\n",
        columns(&rows, &[false; 3])
    ))
}

fn show(arguments: &WorkloadShowArguments) -> Result<(), Failure> {
    let choice = WorkloadChoice::parse(&arguments.workload)?;
    for note in choice.notes() {
        headtime_console::note!("headtime: {}: {note}", choice.name());
    }
    print(&text_of(&choice))
}

/// A workload as TOML; a trace as a description.
pub fn text_of(choice: &WorkloadChoice) -> String {
    choice.file().map_or_else(|| choice.describe(), |file| file.to_toml())
}
