//! [`CompareSpec`]: what is to be compared, as it was written on the command line or in a plan
//! file.
//!
//! A plan file holds what the flags hold, under the same names; a flag goes before the file. Each
//! value remembers the line it stands in, so that a name that turns out to be unknown is reported
//! with its place.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use headtime_mechanics::{NoiseLevel, UnknownNoise};
use headtime_sched::Tunables;
use headtime_units::Nanos;
use serde::{Deserialize, Serialize, Serializer};
use toml::Spanned;

use crate::traces::TraceOptions;
use headtime_console::Failure;

/// Everything that decides a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompareSpec {
    /// Policies with their parameters, `all` among them perhaps.
    pub policies: Vec<Located<String>>,
    /// The drive models, as in `headtime sim --model`.
    pub beliefs: Vec<Located<String>>,
    /// Profiles, `NAME@SETUP` or files.
    pub drives: Vec<Located<String>>,
    /// Workloads and traces.
    pub workloads: Vec<Located<String>>,
    /// Requests held by closed loops that leave it open.
    pub depths: Vec<Located<u64>>,
    /// The policy to compare the others with [default: the first].
    pub baseline: Option<Located<String>>,
    /// The seed of the first replica; the others count on from it.
    pub seed: Located<u64>,
    /// The number of replicas, each with another instance and another draw of the workload.
    pub replicas: Located<u64>,
    /// Requests counted in each run, unless it is measured for a time.
    pub requests: Located<u64>,
    /// Simulated seconds for which each run is measured, after a tenth of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Located<f64>>,
    /// Requests before those; `None` chooses.
    pub warmup: Option<Located<u64>>,
    /// The level of noise of all runs.
    pub noise: NoiseLevel,
    /// Commands at the drive at once; `None` leaves it to the policy.
    pub outstanding: Option<Located<u64>>,
    /// Requests held before a run counts as overloaded.
    pub queue_limit: Located<u64>,
    /// Tunables of the scheduler, as in `headtime sim --set`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<Located<String>>,
    /// The mapping and replay of traces, by the names of the options.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trace_options: Vec<(&'static str, Located<String>)>,
}

/// A value and where it was written; as JSON the value alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// `FILE:LINE` in a plan file, the flag's name otherwise.
    pub place: String,
}

/// A plan file as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    policies: Option<Vec<Spanned<String>>>,
    #[serde(alias = "models")]
    beliefs: Option<Vec<Spanned<String>>>,
    drives: Option<Vec<Spanned<String>>>,
    workloads: Option<Vec<Spanned<String>>>,
    depths: Option<Vec<Spanned<u64>>>,
    baseline: Option<Spanned<String>>,
    seed: Option<Spanned<u64>>,
    replicas: Option<Spanned<u64>>,
    requests: Option<Spanned<u64>>,
    seconds: Option<Spanned<f64>>,
    warmup: Option<Spanned<u64>>,
    noise: Option<Spanned<String>>,
    outstanding: Option<Spanned<u64>>,
    queue_limit: Option<Spanned<u64>>,
    set: Option<Vec<Spanned<String>>>,
    remap: Option<Spanned<String>>,
    replay: Option<Spanned<String>>,
    time_scale: Option<Spanned<toml::Value>>,
}

impl Default for CompareSpec {
    fn default() -> Self {
        let words = |words: &[&str]| {
            words.iter().map(|word| Located::new((*word).to_string(), "the default")).collect()
        };
        Self {
            policies: words(&["fcfs", headtime_sched::DEFAULT_POLICY]),
            beliefs: words(&["profile"]),
            drives: words(&["nearline-20tb"]),
            workloads: words(&["random"]),
            depths: [1, 4, 16, 64].map(|depth| Located::new(depth, "the default")).to_vec(),
            baseline: None,
            seed: Located::new(1, "the default"),
            replicas: Located::new(1, "the default"),
            requests: Located::new(20_000, "the default"),
            seconds: None,
            warmup: None,
            noise: NoiseLevel::default(),
            outstanding: None,
            queue_limit: Located::new(65_536, "the default"),
            set: Vec::new(),
            trace_options: Vec::new(),
        }
    }
}

impl CompareSpec {
    /// Reads the plan file at `path` over the defaults.
    ///
    /// # Errors
    /// When the file cannot be read, is not TOML, or has an unknown key; with the line.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("plan {name} cannot be read"))
            .map_err(Failure::Usage)?;
        Self::parse(&name, &text)
    }

    fn parse(name: &str, text: &str) -> Result<Self, Failure> {
        let place = |start: usize| format!("{name}:{}", text[..start].matches('\n').count() + 1);
        let file: PlanFile = toml::from_str(text).map_err(|error| {
            let start = error.span().map(|span| span.start);
            let line =
                start.and_then(|start| text.lines().nth(text[..start].matches('\n').count()));
            let message = line.and_then(|line| wrong_type(error.message(), line));
            // The library's words end in a remedy for unknown keys: the names that are known.
            let message = message.unwrap_or_else(|| error.message().replace('\n', "; "));
            Failure::Usage(anyhow!("{}: {message}", start.map_or_else(|| name.to_string(), place)))
        })?;
        let mut spec = Self::default();
        let placed = Locating { place: &place };
        placed.all(file.policies, &mut spec.policies);
        placed.all(file.beliefs, &mut spec.beliefs);
        placed.all(file.drives, &mut spec.drives);
        placed.all(file.workloads, &mut spec.workloads);
        placed.all(file.depths, &mut spec.depths);
        placed.all(file.set, &mut spec.set);
        placed.one(file.seed, &mut spec.seed);
        placed.one(file.replicas, &mut spec.replicas);
        placed.one(file.requests, &mut spec.requests);
        placed.one(file.queue_limit, &mut spec.queue_limit);
        spec.baseline = file.baseline.map(|found| placed.of(found));
        spec.seconds = file.seconds.map(|found| placed.of(found));
        spec.warmup = file.warmup.map(|found| placed.of(found));
        spec.outstanding = file.outstanding.map(|found| placed.of(found));
        // A factor may be written as a number.
        let factor = |value: toml::Value| value.as_str().map_or(value.to_string(), str::to_string);
        spec.set_trace_option("remap", file.remap.map(|found| placed.of(found)));
        spec.set_trace_option("replay", file.replay.map(|found| placed.of(found)));
        spec.set_trace_option(
            "time_scale",
            file.time_scale
                .map(|found| placed.of(found))
                .map(|found| Located { value: factor(found.value), place: found.place }),
        );
        if let Some(noise) = file.noise.map(|found| placed.of(found)) {
            spec.noise = noise.value.parse().map_err(|error: UnknownNoise| {
                Failure::Usage(anyhow!("{}: noise: {error}", noise.place))
            })?;
        }
        Ok(spec)
    }

    /// The tunables of the scheduler.
    ///
    /// # Errors
    /// With the first that cannot be set, and its place.
    pub fn tunables(&self) -> Result<Tunables, Failure> {
        let mut tunables = Tunables::default();
        for Located { value, place } in &self.set {
            let (name, text) = value.split_once('=').unwrap_or((value, ""));
            tunables
                .set(name, text)
                .map_err(|error| Failure::Usage(anyhow!("{place}: {value}: {error}")))?;
        }
        Ok(tunables)
    }

    /// Sets an option of traces, if there is a value.
    pub fn set_trace_option(&mut self, name: &'static str, value: Option<Located<String>>) {
        if let Some(value) = value {
            self.trace_options.retain(|(other, _)| *other != name);
            self.trace_options.push((name, value));
        }
    }

    /// The options that traces are replayed with: wrapped around the drive, unless set otherwise.
    ///
    /// # Errors
    /// With the first value that an option does not take, and its place.
    pub fn traces(&self) -> Result<TraceOptions, Failure> {
        let mut options = TraceOptions::wrapped();
        for (name, Located { value, place }) in &self.trace_options {
            options.set(name, value).map_err(|expected| {
                Failure::Usage(anyhow!("{place}: {name} {value} is out of range; {expected}"))
            })?;
        }
        Ok(options)
    }

    /// Checks that every number makes sense and no list is empty.
    ///
    /// # Errors
    /// With the first that does not, and its place.
    pub fn check(&self) -> Result<(), Failure> {
        let empty = [
            ("policies", self.policies.is_empty()),
            ("models", self.beliefs.is_empty()),
            ("drives", self.drives.is_empty()),
            ("workloads", self.workloads.is_empty()),
        ];
        for (what, empty) in [&empty[..], &[("depths", self.depths.is_empty())]].concat() {
            if empty {
                return Err(Failure::Usage(anyhow!(
                    "{what} names none; leave it out for the default, or name at least one"
                )));
            }
        }
        let numbers = self
            .depths
            .iter()
            .map(|depth| ("depth", depth, 1, MAX_DEPTH))
            .chain([
                ("replicas", &self.replicas, 1, MAX_REPLICAS),
                ("requests", &self.requests, 1, MOST),
                ("queue_limit", &self.queue_limit, 1, MOST),
            ])
            .chain(
                self.outstanding
                    .as_ref()
                    .map(|outstanding| ("outstanding", outstanding, 1, MAX_DEPTH)),
            )
            .chain(self.warmup.as_ref().map(|warmup| ("warmup", warmup, 0, MOST)));
        for (what, number, least, most) in numbers {
            if !(least..=most).contains(&number.value) {
                return Err(Failure::Usage(anyhow!(
                    "{}: {what} {} is not a whole number from {least} to {most}",
                    number.place,
                    number.value
                )));
            }
        }
        let Some(Located { value, place }) = &self.seconds else { return Ok(()) };
        if !(SHORTEST_SECONDS..=LONGEST_SECONDS).contains(value) {
            return Err(Failure::Usage(anyhow!(
                "{place}: seconds {value} is not from {SHORTEST_SECONDS} to {LONGEST_SECONDS}"
            )));
        }
        match &self.warmup {
            Some(Located { place, .. }) => Err(Failure::Usage(anyhow!(
                "{place}: warmup counts requests, and the runs are measured by seconds, after a \
                    tenth of these; leave one out"
            ))),
            None => Ok(()),
        }
    }

    /// The time for which each run is measured, and the warm-up before it; `None` where requests
    /// are counted.
    pub fn times(&self) -> Option<[Nanos; 2]> {
        let nanos = |seconds: f64| Nanos::from_ns((seconds * 1e9) as u64);
        self.seconds.as_ref().map(|found| [found.value, found.value / 10.0].map(nanos))
    }

    /// Measures this share of each run. A number of requests that is too small is raised and not
    /// refused: a scaled run is a plan of its own.
    pub fn scale(&mut self, scale: f64) {
        self.requests.value = ((self.requests.value as f64 * scale) as u64).max(FEWEST);
        if let Some(seconds) = &mut self.seconds {
            seconds.value = (seconds.value * scale).max(SHORTEST_SECONDS);
        }
        if let Some(warmup) = &mut self.warmup {
            warmup.value = (warmup.value as f64 * scale) as u64;
        }
    }

    /// The length of each run, in words.
    pub fn length(&self) -> String {
        match &self.seconds {
            Some(seconds) => format!("{} s", seconds.value),
            None => format!("{} requests", self.requests.value),
        }
    }

    /// The command that repeats the comparison, without what changes no figure: threads, folder,
    /// form of output.
    pub fn command(&self) -> String {
        let mut parts = vec!["headtime compare".to_string()];
        parts.push(format!("--policies {}", joined(&self.policies)));
        let usual_beliefs: Vec<String> =
            Self::default().beliefs.into_iter().map(|belief| belief.value).collect();
        let beliefs_differ = !self.beliefs.iter().map(|belief| &belief.value).eq(&usual_beliefs);
        parts.extend(beliefs_differ.then(|| format!("--models {}", joined(&self.beliefs))));
        parts.push(format!("--drives {}", joined(&self.drives)));
        parts.push(format!("--workloads {}", joined(&self.workloads)));
        let depths: Vec<String> = self.depths.iter().map(|depth| depth.value.to_string()).collect();
        parts.push(format!("--depths {}", depths.join(",")));
        parts.extend(
            self.baseline.iter().map(|baseline| format!("--baseline {}", quoted(&baseline.value))),
        );
        parts.push(format!("--seed {} --replicas {}", self.seed.value, self.replicas.value));
        parts.push(match &self.seconds {
            Some(seconds) => format!("--seconds {}", seconds.value),
            None => format!("--requests {}", self.requests.value),
        });
        parts.extend(self.warmup.iter().map(|warmup| format!("--warmup {}", warmup.value)));
        let level = Some(self.noise).filter(|level| *level != NoiseLevel::default());
        parts.extend(level.map(|level| format!("--noise {level}")));
        parts.extend(
            self.outstanding
                .iter()
                .map(|outstanding| format!("--outstanding {}", outstanding.value)),
        );
        let usual = Self::default().queue_limit.value;
        parts.extend(
            (self.queue_limit.value != usual)
                .then(|| format!("--queue-limit {}", self.queue_limit.value)),
        );
        parts.extend(self.set.iter().map(|set| format!("--set {}", quoted(&set.value))));
        parts.extend(self.trace_options.iter().map(|(name, option)| {
            format!("--{} {}", name.replace('_', "-"), quoted(&option.value))
        }));
        parts.join(" ")
    }
}

impl<T> Located<T> {
    /// A value that stands at `place`.
    pub fn new(value: T, place: impl Into<String>) -> Self {
        Self { value, place: place.into() }
    }
}

impl<T: Serialize> Serialize for Located<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

/// Turns places in a text into lines of its file.
struct Locating<'a> {
    place: &'a dyn Fn(usize) -> String,
}

impl Locating<'_> {
    fn of<T>(&self, found: Spanned<T>) -> Located<T> {
        let place = (self.place)(found.span().start);
        Located { value: found.into_inner(), place }
    }

    fn one<T>(&self, found: Option<Spanned<T>>, into: &mut Located<T>) {
        if let Some(found) = found {
            *into = self.of(found);
        }
    }

    fn all<T>(&self, found: Option<Vec<Spanned<T>>>, into: &mut Vec<Located<T>>) {
        if let Some(found) = found {
            *into = found.into_iter().map(|found| self.of(found)).collect();
        }
    }
}

/// Splits a list of names at its commas. A comma within the settings of a name does not split:
/// after `sptf-expected:ageing_power=0` the piece `two_from_requests=1` is the next setting,
/// because it has a `=` and no name before it. After `array:` no comma splits, because the members
/// follow.
pub fn split_names(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for piece in text.split(',').map(str::trim).filter(|piece| !piece.is_empty()) {
        let setting = piece.contains('=')
            && !piece.split('=').next().is_some_and(|before| before.contains(':'));
        match names.last_mut() {
            Some(name) if setting && name.contains(':') || name.starts_with("array:") => {
                name.push(',');
                name.push_str(piece);
            }
            _ => names.push(piece.to_string()),
        }
    }
    names
}

/// A word for the shell, in quotes where it needs them.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn joined(words: &[Located<String>]) -> String {
    words.iter().map(|word| quoted(&word.value)).collect::<Vec<_>>().join(" ")
}

/// Clients of one workload, as many as the generator takes.
const MAX_DEPTH: u64 = 1_000_000;
/// The maximum number of replicas.
const MAX_REPLICAS: u64 = 10_000;
/// Requests are counted in less than this, so that sums stay exact in a float.
const MOST: u64 = 1 << 48;
/// A run of fewer requests says nothing.
const FEWEST: u64 = 100;
/// The bounds of the time for which a run is measured.
const SHORTEST_SECONDS: f64 = 0.01;
const LONGEST_SECONDS: f64 = 1e7;

/// The error of a value of another type than its key takes, by the line of the key.
fn wrong_type(message: &str, line: &str) -> Option<String> {
    let (_, expected) = message.strip_prefix("invalid type: ")?.rsplit_once(", expected ")?;
    let (key, value) = line.split_once('=').map(|(key, value)| (key.trim(), value.trim()))?;
    let (expected, example) = match expected {
        "a sequence" => ("a list", format!("[{value}]")),
        "u64" => ("a whole number without quotes", "1".to_string()),
        "a string" => ("text in quotes", "\"…\"".to_string()),
        _ => return None,
    };
    Some(if value.starts_with('[') {
        format!(
            "{key} is {value}, expected in the list {expected}; write it such as {key} = \
                [{example}]"
        )
    } else {
        format!("{key} is {value}, expected {expected}; write it such as {key} = {example}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let parsed =
            CompareSpec::parse("plan.toml", text).and_then(|spec| spec.check().map(|()| spec));
        parsed.expect_err("it is wrong").message()
    }

    #[test]
    fn a_plan_file_holds_what_the_flags_hold_and_the_rest_is_the_default() {
        let text = "policies = [\"fcfs\", \"edf\"]\ndepths = [2, 8]\nseed = 9\nnoise = \
            \"off\"\nwarmup = 0\nbaseline = \"edf\"\n";
        let spec = CompareSpec::parse("plan.toml", text).expect("it is right");
        assert_eq!(spec.policies[1], Located::new("edf".to_string(), "plan.toml:1"));
        assert_eq!((spec.seed.value, spec.noise, spec.replicas.value), (9, NoiseLevel::Off, 1));
        assert_eq!(
            spec.command(),
            "headtime compare --policies fcfs edf --drives nearline-20tb --workloads random \
                --depths 2,8 --baseline edf --seed 9 --replicas 1 \
             --requests 20000 --warmup 0 --noise off"
        );
        let spec = CompareSpec::parse("plan.toml", "seconds = 12.5\n").expect("it is right");
        assert!(spec.command().ends_with("--replicas 1 --seconds 12.5"), "{}", spec.command());
        let [length, warm_up] = spec.times().expect("it is measured for a time");
        assert_eq!((length, warm_up), (Nanos::from_ms(12_500), Nanos::from_us(1_250_000)));
    }

    #[test]
    fn mistakes_of_a_plan_file_are_named_by_line() {
        for (text, expected) in [
            ("\nseconds = 0.0\n", "plan.toml:2: seconds 0 is not from 0.01 to 10000000"),
            (
                "seconds = 5.0\nwarmup = 9\n",
                "plan.toml:2: warmup counts requests, and the runs are",
            ),
            (
                "seed = 1\npolicy = \"fcfs\"\n",
                "plan.toml:2: unknown field `policy`, expected one of",
            ),
            (
                "seed = 1\n\nreplicas = 0\n",
                "plan.toml:3: replicas 0 is not a whole number from 1 to 10000",
            ),
            (
                "depths = [\n 4,\n 0,\n]\n",
                "plan.toml:3: depth 0 is not a whole number from 1 to 1000000",
            ),
            ("seed = 1\nnoise = \"some\"\n", "plan.toml:2: noise: some is no level of noise"),
            (
                "seed = \"one\"\n",
                "plan.toml:1: seed is \"one\", expected a whole number without quotes; write it \
                    such as seed = 1",
            ),
            (
                "seed = 1\npolicies = \"fcfs\"\n",
                "plan.toml:2: policies is \"fcfs\", expected a list; write it such as policies = \
                    [\"fcfs\"]",
            ),
            (
                "depths = [\"4\"]\n",
                "plan.toml:1: depths is [\"4\"], expected in the list a whole number without \
                    quotes; write it such as depths = [1]",
            ),
            ("seed = 1\nseed = 2\n", "plan.toml:2: duplicate key"),
            ("models = []\n", "models names none; leave it out for the default"),
            ("policies = []\n", "policies names none; leave it out for the default"),
        ] {
            let message = refused(text);
            assert!(
                message.starts_with(expected) && !message.contains('\n'),
                "`{text}` is answered `{message}`, not `{expected}`"
            );
        }
    }

    #[test]
    fn names_are_parted_by_commas_and_settings_are_not() {
        assert_eq!(split_names("fcfs, edf"), ["fcfs", "edf"]);
        assert_eq!(
            split_names("sptf-expected:ageing_power=0,two_from_requests=1,fcfs,firmware:depth=4"),
            ["sptf-expected:ageing_power=0,two_from_requests=1", "fcfs", "firmware:depth=4"]
        );
        assert_eq!(
            split_names("random:size=4KiB,reads=0.5,oltp"),
            ["random:size=4KiB,reads=0.5", "oltp"]
        );
        assert_eq!(
            split_names("atlas10k,array:stripe=64KiB,2*atlas10k,atlas10k"),
            ["atlas10k", "array:stripe=64KiB,2*atlas10k,atlas10k"]
        );
        assert!(split_names(" ,").is_empty());
    }

    #[test]
    fn a_word_that_the_shell_would_take_apart_is_quoted() {
        assert_eq!(
            ["a b", "it's", "random:size=4KiB", ""].map(quoted),
            ["'a b'", "'it'\\''s'", "random:size=4KiB", "''"]
        );
    }
}
