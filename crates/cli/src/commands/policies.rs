//! `headtime policies`: the table of policies, as the scheduler has it.

use clap::Args;
use headtime_sched::{POLICIES, PolicyEntry};
use serde::Serialize;

use headtime_console::Failure;
use headtime_console::output::{columns, print, print_json};

/// Arguments of `headtime policies`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Print a JSON array instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Policy {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    oracle: bool,
    parameters: Vec<Parameter>,
}

#[derive(Serialize)]
struct Parameter {
    name: &'static str,
    summary: &'static str,
    default: f64,
    least: f64,
    most: f64,
    origin: &'static str,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.json {
        return print_json(&POLICIES.iter().map(policy).collect::<Vec<_>>());
    }
    let mut rows = vec![["policy", "what it does", "source"].map(str::to_string).to_vec()];
    for entry in POLICIES {
        let summary = if entry.oracle {
            format!("{} (simulation only: it knows the truth)", entry.summary)
        } else {
            entry.summary.to_string()
        };
        rows.push(vec![entry.name.to_string(), summary, entry.source.to_string()]);
        for parameter in entry.parameters {
            let range = format!(
                "{} … {}, {} unless set ({})",
                parameter.min, parameter.max, parameter.default, parameter.origin
            );
            rows.push(vec![
                format!("  :{}=", parameter.name),
                parameter.summary.to_string(),
                range,
            ]);
        }
    }
    print(&columns(&rows, &[false, false, false]))
}

fn policy(entry: &PolicyEntry) -> Policy {
    let parameters = entry.parameters.iter().map(|parameter| Parameter {
        name: parameter.name,
        summary: parameter.summary,
        default: parameter.default,
        least: parameter.min,
        most: parameter.max,
        origin: parameter.origin,
    });
    Policy {
        name: entry.name,
        summary: entry.summary,
        source: entry.source,
        oracle: entry.oracle,
        parameters: parameters.collect(),
    }
}
