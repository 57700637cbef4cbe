//! `headtime top`: the exports of a running `headtime serve`, second by second: what of the drive's
//! time each was promised and given, and what it made of it. Without a named server it shows all
//! drives of the machine.

use std::time::Duration;

use clap::Args;
use headtime_serve::control::{TopExport, TopSample};

use super::control::ask;
use super::scan::ServerArguments;
use headtime_console::Failure;
use headtime_console::output::{busiest, columns_within, json, print_while_read, terminal_size};
use headtime_console::stop::Stop;

/// Arguments of `headtime top`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// End after this many seconds [default: at Ctrl-C]
    #[arg(long, value_name = "N")]
    pub seconds: Option<u64>,
    /// Server to address
    #[command(flatten)]
    pub server: ServerArguments,
}

const SECOND: Duration = Duration::from_secs(1);

/// Shows a table each second: in place of the last on a terminal, below it elsewhere; or a JSON
/// object a second. Ends when its reader goes away.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let top = |client: &mut _| ask(client, "top", &serde_json::Value::Null);
    let mut drives: Vec<(_, TopSample)> = Vec::new();
    for mut client in arguments.server.choice.connect_all()? {
        let first = top(&mut client)?;
        drives.push((client, first));
    }
    let in_place = std::io::IsTerminal::is_terminal(&std::io::stdout()) && !arguments.server.json;
    let mut ended = Vec::new();
    let mut left = arguments.seconds;
    while left != Some(0) && !stop.wait(SECOND) {
        let last = step(&mut drives, &mut ended, top)?;
        let text = if arguments.server.json {
            last.iter().map(json).collect::<Result<Vec<_>, _>>()?.join("\n")
        } else {
            let clear = if in_place { CLEAR } else { "" };
            let (width, lines) =
                terminal_size().filter(|_| in_place).unwrap_or((usize::MAX, usize::MAX));
            let named = last.len() + ended.len() > 1;
            let lines = lines.saturating_sub(ended.len());
            let shown = rows_for_each(&last, lines, if named { 4 } else { 2 });
            let tables: Vec<String> = last
                .iter()
                .map(|last| {
                    let drive = if named { format!("{}\n", last.drive) } else { String::new() };
                    format!("{drive}{}", table(last, width, shown))
                })
                .collect();
            format!("{clear}{}{}", tables.join("\n"), ended.concat())
        };
        if !print_while_read(&text)? {
            break;
        }
        left = left.map(|left| left - 1);
    }
    Ok(())
}

/// The last interval of each drive. A drive whose server went away moves to `ended`.
fn step<C>(
    drives: &mut Vec<(C, TopSample)>,
    ended: &mut Vec<String>,
    top: impl Fn(&mut C) -> Result<TopSample, Failure>,
) -> Result<Vec<TopSample>, Failure> {
    let mut last = Vec::new();
    let mut nth = 0;
    while let Some((client, before)) = drives.get_mut(nth) {
        match top(client) {
            Ok(now) => {
                last.push(now.since(before));
                *before = now;
                nth += 1;
            }
            Err(failure) if drives.len() == 1 => return Err(failure),
            Err(_) => ended.push(format!("{} is no longer served\n", drives.remove(nth).1.drive)),
        }
    }
    Ok(last)
}

/// Clears the terminal and goes to its first place (ECMA-48).
const CLEAR: &str = "\x1b[2J\x1b[H";

/// The number of rows for the exports of each drive on a terminal of `lines`, with `others` lines
/// beside them.
fn rows_for_each(drives: &[TopSample], lines: usize, others: usize) -> usize {
    let free = lines.saturating_sub(1 + drives.len() * others);
    let all: usize = drives.iter().map(|drive| drive.exports.len()).sum();
    if all <= free { usize::MAX } else { (free / drives.len().max(1)).max(1) }
}

/// The picture of one interval with at most `shown` rows, those of the busiest exports, and without
/// the least important columns where they do not fit.
fn table(last: &TopSample, width: usize, shown: usize) -> String {
    let seconds = last.interval_seconds.max(f64::MIN_POSITIVE);
    let busy: f64 =
        last.exports.iter().map(|export| export.disk_seconds).sum::<f64>() + last.scan_seconds;
    let header = [
        "EXPORT",
        "PROMISED",
        "LIMIT",
        "TIME",
        "IOPS",
        "MiB/s",
        "p50 ms",
        "p99 ms",
        "max ms",
        "IN FLIGHT",
        "MISSED",
        "ERRORS",
        "",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    // An export that waits without being served is not idle.
    let uses: Vec<f64> = last
        .exports
        .iter()
        .map(|export| export.disk_seconds + 1e-6 * export.in_flight as f64)
        .collect();
    let fits = last.exports.len() <= shown;
    let indices = busiest(&uses, if fits { shown } else { shown - 1 });
    rows.extend(indices.iter().map(|index| row(&last.exports[*index], seconds)));
    let others = match last.exports.len() - indices.len() {
        0 => String::new(),
        count => format!(
            "and {count} less busy, {:.1} % of the time\n",
            100.0 * (uses.iter().sum::<f64>() - indices.iter().map(|i| uses[*i]).sum::<f64>())
                / seconds
        ),
    };
    let mut right = [true; 13];
    (right[0], right[12]) = (false, false);
    // Maximum, errors, requests in flight, median, limit, MiB/s.
    const DISPENSABLE: [usize; 6] = [8, 11, 9, 6, 2, 5];
    let by_shares = if last.enforces_shares { "" } else { " (does not enforce shares)" };
    format!(
        "policy {}{by_shares}, drive busy {:.0} %, scans {:.1} %, {} at the drive, {} queued\n\
            {}{others}",
        last.policy,
        100.0 * (busy / seconds).min(1.0),
        100.0 * last.scan_seconds / seconds,
        last.outstanding,
        last.queued,
        columns_within(&rows, &right, &DISPENSABLE, width)
    )
}

fn row(export: &TopExport, seconds: f64) -> Vec<String> {
    let percent = |percent: Option<f64>| {
        percent.map_or_else(|| "–".to_owned(), |percent| format!("{percent} %"))
    };
    let ms = |part: f64| {
        export
            .response_quantile_us(part)
            .map_or_else(|| "–".to_owned(), |us| format!("{:.1}", us as f64 / 1e3))
    };
    vec![
        export.name.clone(),
        percent(export.reserve_percent.filter(|reserved| *reserved > 0.0)),
        percent(export.limit_percent),
        format!("{:.1} %", 100.0 * export.disk_seconds / seconds),
        format!("{:.0}", export.requests as f64 / seconds),
        format!("{:.1}", export.bytes as f64 / seconds / 1_048_576.0),
        ms(0.5),
        ms(0.99),
        ms(1.0),
        export.in_flight.to_string(),
        export.deadline_misses.to_string(),
        export.errors.to_string(),
        if export.held_back { "at its limit".to_owned() } else { String::new() },
    ]
}

const AFTER_HELP: &str = "\
TIME is the part of the last second that the drive spent on the export, as it was charged; \
PROMISED is what it has reserved. IN FLIGHT counts requests of its clients that wait or are at the \
drive.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_a_line_for_each_export_with_what_it_was_promised_and_given() {
        let export = TopExport {
            name: "vm1".to_owned(),
            reserve_percent: Some(25.0),
            disk_seconds: 0.5,
            requests: 200,
            bytes: 2 << 20,
            in_flight: 7,
            held_back: true,
            response_us: [(1_000, 150), (20_000, 50)].into(),
            ..TopExport::default()
        };
        let last = TopSample {
            interval_seconds: 2.0,
            policy: "utilization".to_owned(),
            enforces_shares: true,
            exports: vec![export],
            ..TopSample::default()
        };
        let text = table(&last, usize::MAX, usize::MAX);
        assert!(text.starts_with("policy utilization, drive busy 25 %, scans 0.0 %"), "{text}");
        let line = text.lines().last().expect("a line for the export");
        assert_eq!(
            line.split_whitespace().collect::<Vec<_>>().join(" "),
            "vm1 25 % – 25.0 % 100 1.0 1.0 20.0 20.0 7 0 0 at its limit"
        );
        let narrow = table(&last, 60, usize::MAX);
        assert!(narrow.lines().skip(1).all(|line| line.chars().count() <= 60), "{narrow}");
        assert!(narrow.contains("vm1") && narrow.contains("p99 ms"), "{narrow}");
        assert!(!narrow.contains("max ms"), "{narrow}");
    }
    #[test]
    fn a_low_terminal_shows_the_busiest_exports_and_counts_the_others() {
        let export = |nth: u32| TopExport {
            name: format!("vm{nth}"),
            disk_seconds: if nth == 28 { 0.5 } else { 0.0 },
            in_flight: u64::from(nth == 29),
            reserve_percent: Some(0.0),
            ..TopExport::default()
        };
        let last = TopSample {
            interval_seconds: 1.0,
            exports: (0..30).map(export).collect(),
            ..TopSample::default()
        };
        let shown = rows_for_each(std::slice::from_ref(&last), 24, 2);
        let text = table(&last, 80, shown);
        assert_eq!(text.lines().count(), 23, "{text}");
        assert!(text.contains("vm28") && text.contains("vm29"), "{text}");
        assert!(!text.contains(" 0 %"), "nothing is reserved: {text}");
        assert!(text.ends_with("and 10 less busy, 0.0 % of the time\n"), "{text}");
        assert_eq!(rows_for_each(&[last.clone(), last.clone()], 24, 4), 7);
        assert_eq!(rows_for_each(&[last], 32 + 1, 2), usize::MAX);
    }
    #[test]
    fn a_server_that_ends_leaves_the_others() {
        let drive = |name: &str| TopSample { drive: name.to_owned(), ..TopSample::default() };
        let mut drives = vec![(true, drive("a")), (false, drive("b")), (true, drive("c"))];
        let top = |answers: &mut bool| {
            let gone = || Failure::Failed(anyhow::anyhow!("it is gone"));
            answers.then(TopSample::default).ok_or_else(gone)
        };
        let mut ended = Vec::new();
        assert_eq!(step(&mut drives, &mut ended, top).expect("two answer").len(), 2);
        assert_eq!(ended, ["b is no longer served\n"]);
        drives.iter_mut().for_each(|(answers, _)| *answers = false);
        assert!(step(&mut drives, &mut ended, top).is_err());
    }
}
