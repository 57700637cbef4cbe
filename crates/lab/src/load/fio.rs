//! Load made by fio's nbd engine: one fio, one job per volume, its figures read from its JSON.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use headtime_nbd::uri::NbdUri;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::{Pattern, VolumeLoad};
use crate::report::ClientFigures;
use headtime_console::figures::Times;

/// The version of fio, or the reason why it cannot generate the load.
pub(super) fn find() -> Result<String, String> {
    let run = |argument: &str| Command::new("fio").arg(argument).stdin(Stdio::null()).output();
    let version = match run("--version") {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().trim_start_matches("fio-").to_string()
        }
        Ok(output) => return Err(format!("fio --version ended with {}", output.status)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err("fio is not installed (on Debian: apt-get install fio)".to_string());
        }
        Err(error) => return Err(format!("fio cannot be started: {error}")),
    };
    match run("--enghelp=nbd") {
        Ok(output)
            if output.status.success()
                && String::from_utf8_lossy(&output.stdout).contains("uri") =>
        {
            Ok(version)
        }
        _ => Err(format!("fio {version} was built without its nbd engine")),
    }
}

/// A running fio.
pub struct Fio {
    child: Child,
    ends_at_the_latest: Instant,
    files: Files,
    volumes: Vec<&'static str>,
}

struct Files {
    job: PathBuf,
    figures: PathBuf,
    said: PathBuf,
}

impl Fio {
    pub(super) fn start(
        targets: &[(VolumeLoad, NbdUri)],
        duration: Duration,
        seed: u64,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let files = Files {
            job: folder.join("load.fio"),
            figures: folder.join("load.json"),
            said: folder.join("load.txt"),
        };
        std::fs::write(&files.job, job_file(targets, duration, seed))
            .with_context(|| format!("cannot write fio's job file {}", files.job.display()))?;
        let said = File::create(&files.said)
            .with_context(|| format!("cannot write {}", files.said.display()))?;
        let child = Command::new("fio")
            .args(["--output-format=json", "--eta=never"])
            .arg(format!("--output={}", files.figures.display()))
            .arg(&files.job)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(said.try_clone().context("cannot share a file with fio")?)
            .stderr(said)
            // A group of its own, so that Ctrl-C reaches this program alone, which then ends fio in
            // order.
            .process_group(0)
            .spawn()
            .context("fio cannot be started")?;
        let volumes = targets.iter().map(|(load, _)| load.volume).collect();
        Ok(Self { child, ends_at_the_latest: Instant::now() + duration + GRACE, files, volumes })
    }

    pub(super) fn is_over(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait().context("cannot ask for fio's state")?.is_some()
            || Instant::now() > self.ends_at_the_latest)
    }

    pub(super) fn finish(mut self) -> anyhow::Result<Vec<Option<ClientFigures>>> {
        let interrupted = self.stop()?;
        let status = self.child.wait().context("cannot wait for fio")?;
        let said = std::fs::read_to_string(&self.files.said).unwrap_or_default();
        let figures = std::fs::read_to_string(&self.files.figures).unwrap_or_default();
        // Diagnostics may stand before the object.
        let parsed = figures
            .find('{')
            .and_then(|start| serde_json::from_str::<Value>(&figures[start..]).ok());
        let Some(parsed) = parsed else {
            if interrupted {
                return Ok(vec![None; self.volumes.len()]);
            }
            bail!(
                "fio ended with {status} and without figures; its output: {}",
                one_line(&format!("{figures} {said}"))
            );
        };
        let found: Vec<Option<ClientFigures>> =
            self.volumes.iter().map(|volume| client_figures(&parsed, volume)).collect();
        if !status.success() && !interrupted {
            bail!(
                "fio ended with {status}; its output: {}",
                one_line(&format!("{} {said}", &figures[..figures.find('{').unwrap_or(0)]))
            );
        }
        Ok(found)
    }

    /// Signals fio to end if it is still running, and kills it if it does not; returns true if a
    /// signal was needed.
    fn stop(&mut self) -> anyhow::Result<bool> {
        if self.child.try_wait().context("cannot ask for fio's state")?.is_some() {
            return Ok(false);
        }
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::INT);
        let patience = Instant::now() + GRACE;
        while Instant::now() < patience {
            if self.child.try_wait().context("cannot ask for fio's state")?.is_some() {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.kill();
        Ok(true)
    }

    fn kill(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
    }
}

impl Drop for Fio {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.kill();
            let _ = self.child.wait();
        }
        for file in [&self.files.job, &self.files.figures, &self.files.said] {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// The time limits for fio to finish, and to end after a signal.
const GRACE: Duration = Duration::from_secs(15);

/// fio's job file for `targets`.
pub fn job_file(targets: &[(VolumeLoad, NbdUri)], duration: Duration, seed: u64) -> String {
    let mut text = format!(
        "[global]\nioengine=nbd\nthread=1\ntime_based=1\nruntime={}ms\nrandseed={seed}\n\
         ; One figure for reads and writes together, and the whole way as the client sees it.\n\
         unified_rw_reporting=mixed\nlat_percentiles=1\nclat_percentiles=0\nslat_percentiles=0\n\
         percentile_list=50:95:99:99.9\n\
         ; Without a map of what was touched: the volumes are terabytes.\nnorandommap=1\n",
        duration.as_millis()
    );
    for (load, uri) in targets {
        let direction = match (load.pattern, load.reads) {
            (Pattern::Sequential, 1.0) => "read",
            (Pattern::Sequential, 0.0) => "write",
            (Pattern::Sequential, _) => "rw",
            (Pattern::Random, 1.0) => "randread",
            (Pattern::Random, 0.0) => "randwrite",
            (Pattern::Random, _) => "randrw",
        };
        let (volume, block, in_flight) = (load.volume, load.block.get(), load.in_flight);
        // Writing into a String cannot fail.
        let _ = write!(
            text,
            "\n[{volume}]\nuri={uri}\nrw={direction}\nbs={block}\niodepth={in_flight}\n"
        );
        if direction.ends_with("rw") {
            let _ = writeln!(text, "rwmixread={:.0}", load.reads * 100.0);
        }
        if let Some(rate) = load.rate {
            let _ = writeln!(text, "rate={}", rate.get());
        }
    }
    text
}

/// One job's figures out of fio's JSON.
fn client_figures(parsed: &Value, volume: &str) -> Option<ClientFigures> {
    let job = parsed["jobs"].as_array()?.iter().find(|job| job["jobname"] == volume)?;
    let mixed = &job["mixed"];
    let times = &mixed["lat_ns"];
    let ms = |value: &Value| value.as_f64().unwrap_or(0.0) / 1e6;
    let percentile = |name: &str| ms(&times["percentile"][name]);
    let requests = mixed["total_ios"].as_u64()?;
    Some(ClientFigures {
        requests,
        iops: mixed["iops"].as_f64()?,
        mib_per_second: mixed["bw_bytes"].as_f64()? / super::MIB,
        response_ms: Times {
            count: requests,
            mean: ms(&times["mean"]),
            p50: percentile("50.000000"),
            p95: percentile("95.000000"),
            p99: percentile("99.000000"),
            p999: percentile("99.900000"),
            max: ms(&times["max"]),
        },
        errors: job["total_err"]
            .as_u64()
            .unwrap_or(u64::from(job["error"].as_i64().unwrap_or(0) != 0)),
    })
}

fn one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.is_empty() {
        return "nothing".to_string();
    }
    words.chars().take(400).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_nbd::uri::Address;
    use headtime_units::{ByteSize, Share};

    fn target(load: VolumeLoad) -> (VolumeLoad, NbdUri) {
        let uri = NbdUri {
            address: Address::Unix { socket: "/tmp/h.sock".into() },
            export: load.volume.into(),
        };
        (load, uri)
    }

    #[test]
    fn the_job_file_says_what_the_loads_say() {
        let recorder = VolumeLoad {
            volume: "recorder",
            size: ByteSize::new(1 << 40),
            deadline: None,
            reserve: Share::NONE,
            pattern: Pattern::Sequential,
            reads: 0.0,
            block: ByteSize::new(1 << 20),
            in_flight: 16,
            rate: Some(ByteSize::new(20 << 20)),
        };
        let database = VolumeLoad {
            volume: "database",
            pattern: Pattern::Random,
            reads: 0.7,
            block: ByteSize::new(8_192),
            rate: None,
            ..recorder.clone()
        };
        let text = job_file(&[target(recorder), target(database)], Duration::from_millis(2_500), 9);
        for expected in [
            "runtime=2500ms",
            "randseed=9",
            "[recorder]\nuri=nbd+unix:///recorder?socket=/tmp/h.sock\nrw=write\nbs=1048576",
            "rate=20971520",
            "rw=randrw",
            "rwmixread=70",
        ] {
            assert!(text.contains(expected), "{expected} is missing from\n{text}");
        }
        assert_eq!(text.matches("rate=").count(), 1, "only the recorder is paced");
    }

    #[test]
    fn figures_are_read_from_fios_json() {
        let text = r#"{"jobs": [{"jobname": "backup", "error": 0, "total_err": 0,
            "mixed": {"total_ios": 100, "iops": 50.5, "bw_bytes": 52428800,
            "lat_ns": {"mean": 20000000.0, "max": 90000000, "percentile": {
            "50.000000": 18000000, "95.000000": 40000000,
            "99.000000": 80000000, "99.900000": 89000000}}}}]}"#;
        let parsed: Value = serde_json::from_str(text).expect("JSON");
        let figures = client_figures(&parsed, "backup").expect("the job is there");
        assert_eq!(
            (
                figures.requests,
                figures.mib_per_second,
                figures.response_ms.p99,
                figures.response_ms.max
            ),
            (100, 50.0, 80.0, 90.0)
        );
        assert!(client_figures(&parsed, "recorder").is_none());
    }
}
