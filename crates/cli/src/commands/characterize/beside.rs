//! `headtime characterize --beside`: requests to a running server.

use anyhow::{Context as _, anyhow};
use headtime_console::Failure;
use headtime_console::characterization;
use headtime_console::output::{print, print_json};
use headtime_serve::beside::{BesideState, BesideStatus, StartBeside};
use headtime_serve::control::ResumeBeside;
use headtime_units::{Share, parse_share};

use super::{Arguments, BesideAction, name};
use crate::commands::control::{ServerChoice, ask};

/// Has the server of the drive carry out an action, and prints the state.
pub(super) fn run(arguments: &Arguments, action: BesideAction) -> Result<(), Failure> {
    let action = match (action, &arguments.resume) {
        (action, None) => action,
        (BesideAction::Start | BesideAction::Resume, Some(None)) => BesideAction::Resume,
        (_, Some(_)) => {
            return Err(Failure::Usage(anyhow!(
                "--resume: the server keeps the state of a characterization beside clients; \
                    continue it with --beside=resume"
            )));
        }
    };
    if action != BesideAction::Start {
        takes_no_settings(arguments, action)?;
    }
    let max_impact = arguments
        .max_impact
        .as_deref()
        .map(parse_share)
        .transpose()
        .map_err(|error| Failure::Usage(anyhow!("--max-impact: {error}")))?
        .map(Share::as_fraction);
    let named = arguments.subject.as_ref().map(ToString::to_string);
    if named.is_some() && arguments.server.is_named() {
        return Err(Failure::Usage(anyhow!(
            "the server is named twice; name the drive, or use one of --control, --drive and \
                --config"
        )));
    }
    let server = ServerChoice {
        control: arguments.server.control.clone(),
        drive: named.or_else(|| arguments.server.drive.clone()),
        config: arguments.server.config.clone(),
    };
    let nothing = serde_json::json!({});
    // Wrong arguments are found before a server is looked for.
    let start = start(arguments, max_impact)?;
    let mut client = server.connect("")?;
    let status: BesideStatus = match action {
        BesideAction::Start => ask(&mut client, "characterize.start", &start)?,
        BesideAction::Resume => {
            ask(&mut client, "characterize.resume", &ResumeBeside { max_impact })?
        }
        BesideAction::Pause => ask(&mut client, "characterize.pause", &nothing)?,
        BesideAction::Cancel => ask(&mut client, "characterize.cancel", &nothing)?,
        BesideAction::Status => ask(&mut client, "characterize.status", &nothing)?,
    };
    if arguments.json {
        print_json(&status)?
    } else {
        print(&characterization::text(&status))?
    }
    let shown = action == BesideAction::Status;
    match (status.state, &status.result) {
        (BesideState::Failed, _) if shown => {
            Err(Failure::Failed(anyhow!("the characterization failed: {}", status.reason)))
        }
        (BesideState::Complete, Some(result)) if shown && !result.reliable => {
            Err(Failure::NotFound(anyhow!("{}", result.verdict)))
        }
        _ => Ok(()),
    }
}

fn start(arguments: &Arguments, max_impact: Option<f64>) -> Result<StartBeside, Failure> {
    // The server has a working directory of its own.
    let out = arguments.out.as_ref().map(|path| {
        std::path::absolute(path).with_context(|| format!("{} is no path", path.display()))
    });
    Ok(StartBeside {
        out: out.transpose()?,
        name: name(arguments)?,
        seconds: arguments.seconds,
        seed: arguments.seed,
        keep_model: arguments.keep_model,
        force: arguments.force,
        max_impact,
    })
}

/// Checks that nothing was given that only a start has.
fn takes_no_settings(arguments: &Arguments, action: BesideAction) -> Result<(), Failure> {
    let given = [
        ("--out", arguments.out.is_some()),
        ("--name", arguments.name.is_some()),
        ("--seconds", arguments.seconds.is_some()),
        ("--force", arguments.force),
        ("--keep-model", arguments.keep_model),
        ("--max-impact", arguments.max_impact.is_some() && action != BesideAction::Resume),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(Failure::Usage(anyhow!(
            "{flag} is a setting of the start and has no effect on --beside={}; leave it out",
            format!("{action:?}").to_lowercase()
        ))),
        None => Ok(()),
    }
}
