//! Requests of 4 KiB and 1 MiB over NBD: Headtime on a drive in memory beside nbdkit's memory
//! plugin and qemu-nbd on a file in memory, by fio.
//!
//! `make bench-nbd`, or `cargo bench -p headtime-cli --bench nbd -- --repeats 15 --seconds 1 --rw
//! randread,randwrite --bs 4k,1m --policy fcfs`. All servers run from the start to the end; in each
//! repeat fio visits each of them in turn, so that whatever the machine does meets all alike.
//! Printed are medians and ranges over the repeats, and the median and range of the ratio to nbdkit
//! within each repeat. Nothing here passes or fails: machines are too different for that.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A server under test: its name, how it is started (`{socket}` and `{folder}` are filled in), and
/// the export's name.
struct Contestant {
    name: &'static str,
    command: String,
    export: &'static str,
}

/// The measurements of one run of fio.
#[derive(Clone, Copy)]
struct Visit {
    iops: f64,
    mean_us: f64,
}

/// The requests of one run of fio.
#[derive(Clone, Copy)]
struct Pattern<'a> {
    rw: &'a str,
    bs: &'a str,
    depth: u32,
}

struct Arguments {
    repeats: usize,
    seconds: f64,
    /// fio's names of the patterns, separated by commas.
    rw: String,
    /// fio's lengths of requests, separated by commas.
    bs: String,
    policy: String,
}

/// Kills its server when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A queue of 8 requests of 1 MiB moves as many bytes as any server can.
fn depths(bs: &str) -> &'static [u32] {
    if bs == "1m" { &[1, 8] } else { &[1, 8, 64] }
}

/// The one that ratios are to.
const REFERENCE: &str = "nbdkit";
const LONGEST_START: Duration = Duration::from_secs(20);

fn main() -> Outcome<()> {
    let arguments = Arguments::read()?;
    // Files in memory, where qemu-nbd keeps its bytes.
    let folder = tempfile::Builder::new().prefix("headtime-bench-nbd").tempdir_in("/dev/shm")?;
    let contestants = contestants(&arguments.policy);
    let _servers: Vec<Running> = contestants
        .iter()
        .map(|contestant| start(contestant, folder.path()))
        .collect::<Outcome<_>>()?;
    let versions: Vec<String> =
        [("fio", "--version"), ("nbdkit", "--version"), ("qemu-nbd", "--version")]
            .map(|(tool, flag)| version(tool, flag))
            .into();
    println!(
        "{} of {}, {} repeats of {} s, {}, headtime {}",
        arguments.rw,
        arguments.bs,
        arguments.repeats,
        arguments.seconds,
        versions.join(", "),
        env!("CARGO_PKG_VERSION")
    );
    let patterns = arguments.bs.split(',').flat_map(|bs| {
        let of_pattern =
            move |rw| depths(bs).iter().map(move |depth| Pattern { rw, bs, depth: *depth });
        arguments.rw.split(',').flat_map(of_pattern)
    });
    for pattern in patterns {
        let mut visits: Vec<Vec<Visit>> = vec![Vec::new(); contestants.len()];
        for _ in 0..arguments.repeats {
            for (contestant, visits) in contestants.iter().zip(&mut visits) {
                visits.push(visit(contestant, folder.path(), pattern, arguments.seconds)?);
            }
        }
        print!("{}", table(pattern, &contestants, &visits));
    }
    Ok(())
}

fn contestants(policy: &str) -> Vec<Contestant> {
    let headtime = env!("CARGO_BIN_EXE_headtime");
    vec![
        Contestant {
            name: "headtime",
            command: format!(
                "{headtime} serve --drive memory:1GiB --volume v=900MiB --listen unix:{{socket}} \
                    --policy {policy} --initialize"
            ),
            export: "v",
        },
        Contestant {
            name: REFERENCE,
            command: "nbdkit --foreground --unix {socket} memory 1G".into(),
            export: "",
        },
        Contestant {
            name: "qemu-nbd",
            command: "qemu-nbd --format=raw --socket={socket} --persistent {folder}/qemu.img"
                .into(),
            export: "",
        },
    ]
}

fn start(contestant: &Contestant, folder: &Path) -> Outcome<Running> {
    let socket = socket(contestant, folder);
    std::fs::File::create(folder.join("qemu.img"))?.set_len(1 << 30)?;
    let command = contestant
        .command
        .replace("{socket}", &socket)
        .replace("{folder}", &folder.display().to_string());
    let mut words = command.split_whitespace();
    let program = words.next().ok_or("a command has a first word")?;
    let spawned =
        Command::new(program).args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let server = Running(spawned.map_err(|error| {
        format!(
            "{program} cannot be started: {error}; `apt-get install \
            nbdkit qemu-utils fio` gets what is needed"
        )
    })?);
    let began = Instant::now();
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        if began.elapsed() > LONGEST_START {
            return Err(format!(
                "{program} does not listen on {socket} after {} s",
                LONGEST_START.as_secs()
            )
            .into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(server)
}

fn socket(contestant: &Contestant, folder: &Path) -> String {
    folder.join(contestant.name).display().to_string()
}

fn visit(
    contestant: &Contestant,
    folder: &Path,
    Pattern { rw, bs, depth }: Pattern<'_>,
    seconds: f64,
) -> Outcome<Visit> {
    let uri = format!("nbd+unix:///{}?socket={}", contestant.export, socket(contestant, folder));
    let output = Command::new("fio")
        .args([
            "--name=visit",
            "--ioengine=nbd",
            "--size=512m",
            "--time_based",
            "--output-format=json",
        ])
        .args([
            format!("--uri={uri}"),
            format!("--rw={rw}"),
            format!("--bs={bs}"),
            format!("--iodepth={depth}"),
            format!("--runtime={seconds}s"),
        ])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    // fio may say something before its JSON.
    let json = text
        .find('{')
        .map(|begin| &text[begin..])
        .ok_or_else(|| format!("fio said nothing about {}", contestant.name))?;
    let report: serde_json::Value = serde_json::from_str(json)?;
    let side = if rw.contains("write") { "write" } else { "read" };
    let figure = |of: &serde_json::Value| of.as_f64().ok_or("fio's report lacks a figure");
    let figures = &report["jobs"][0][side];
    let visit = Visit {
        iops: figure(&figures["iops"])?,
        mean_us: figure(&figures["lat_ns"]["mean"])? / 1e3,
    };
    if visit.iops > 0.0 { Ok(visit) } else { Err(format!("fio served nothing from {uri}").into()) }
}

fn table(pattern: Pattern<'_>, contestants: &[Contestant], visits: &[Vec<Visit>]) -> String {
    let Pattern { rw, bs, depth } = pattern;
    let reference =
        contestants.iter().position(|contestant| contestant.name == REFERENCE).unwrap_or(0);
    let mut text = String::new();
    for (contestant, own) in contestants.iter().zip(visits) {
        let iops = Spread::of(own.iter().map(|visit| visit.iops));
        let mean = Spread::of(own.iter().map(|visit| visit.mean_us));
        let ratio = Spread::of(
            own.iter().zip(&visits[reference]).map(|(own, other)| own.iops / other.iops),
        );
        let _ = writeln!(
            text,
            "{rw} {bs} depth {depth:>2}  {:<9} {:>7.0} IOPS [{:>6.0} .. {:>6.0}]  mean {:>7.1} us \
                [{:>6.1} .. {:>7.1}]  {:.2} of {REFERENCE}'s [{:.2} .. {:.2}]",
            contestant.name,
            iops.median,
            iops.least,
            iops.most,
            mean.median,
            mean.least,
            mean.most,
            ratio.median,
            ratio.least,
            ratio.most
        );
    }
    text
}

struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    /// Of at least one value.
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Self { least: sorted[0], median: (low + high) / 2.0, most: sorted[sorted.len() - 1] }
    }
}

fn version(tool: &str, flag: &str) -> String {
    let answer = Command::new(tool).arg(flag).output().map(|output| {
        String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
    });
    answer.unwrap_or_else(|_| format!("{tool} missing"))
}

impl Arguments {
    fn read() -> Outcome<Self> {
        let mut arguments = Self {
            repeats: 9,
            seconds: 1.0,
            rw: "randread,randwrite".into(),
            bs: "4k,1m".into(),
            policy: "fcfs".into(),
        };
        // cargo adds --bench of its own.
        let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            match word.as_str() {
                "--repeats" => {
                    arguments.repeats = value
                        .parse::<usize>()
                        .ok()
                        .filter(|repeats| *repeats > 0)
                        .ok_or("--repeats is a number from 1")?
                }
                "--seconds" => arguments.seconds = value.parse()?,
                "--rw" => arguments.rw = value,
                "--bs" => arguments.bs = value,
                "--policy" => arguments.policy = value,
                _ => {
                    return Err(format!(
                        "{word} is no option; there are --repeats N, --seconds S, \
                    --rw PATTERN,…, --bs 4k,1m and --policy NAME"
                    )
                    .into());
                }
            }
        }
        Ok(arguments)
    }
}
